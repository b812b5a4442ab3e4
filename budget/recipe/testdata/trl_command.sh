trl dpo --config recipes/dpo.yaml --gradient_accumulation_steps 4
