python -m sglang.launch_server --model-path Qwen/Qwen3-30B-A3B --tp 4 --ep-size 4 \
  --context-length 16384 --max-running-requests 32 --mem-fraction-static 0.85
