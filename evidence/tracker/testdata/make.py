#!/usr/bin/env python3
"""make.py OUT: one small run as each tracker's own Python package writes it.

    python3 -m venv V && V/bin/pip install wandb mlflow-skinny tensorboardX transformers lightning
    V/bin/python evidence/tracker/testdata/make.py OUT
    python3 -m venv W && W/bin/pip install wandb==0.18.7 setuptools    the last ones with a data store in Python
    W/bin/python evidence/tracker/testdata/make.py OUT/gpus.wandb

Ten steps: loss 4.0 - 0.1 x step, 0.25 s each, memory 2 GiB + 1 MiB x step; batch 8, sequence 1024, accumulated twice, on 2 GPUs.
What a machine without a GPU can't log (readings of GPUs) is written through wandb's own message types and data store.
"""
import glob, json, os, shutil, sys

OUT = os.path.abspath(sys.argv[1])
GIB, MIB = 1 << 30, 1 << 20
CONFIG = {"per_device_train_batch_size": 8, "max_seq_length": 1024, "gradient_accumulation_steps": 2, "model_name_or_path": "gpt2",
          "bf16": True, "optim": "adamw_torch", "learning_rate": 0.001, "world_size": 2}


def figures(step):
    return {"loss": round(4.0 - 0.1 * step, 3), "step_time": 0.25, "memory": 2 * GIB + step * MIB}


def tensorboard(folder):
    from tensorboardX import SummaryWriter
    w = SummaryWriter(folder, filename_suffix="")
    for step in range(1, 11):
        f = figures(step)
        w.add_scalar("train/loss", f["loss"], step)
        w.add_scalar("perf/step_time", f["step_time"], step)
        w.add_scalar("memory/max_allocated_bytes", f["memory"], step)
    w.add_text("config", json.dumps(CONFIG))
    w.close()


def mlflow(folder):
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    import mlflow as ml
    ml.set_tracking_uri("file://" + folder)
    with ml.start_run(run_name="small"):
        ml.log_params(CONFIG)
        for step in range(1, 11):
            f = figures(step)
            ml.log_metrics({"train/loss": f["loss"], "gpu_memory_allocated_bytes": f["memory"], "step_time": f["step_time"],
                            "system/gpu_0_memory_usage_megabytes": f["memory"] / 1e6}, step=step)


def wandb(folder):
    os.environ.update({"WANDB_MODE": "offline", "WANDB_DIR": folder, "WANDB_SILENT": "true"})
    os.makedirs(folder, exist_ok=True)
    import wandb as wb
    neutral = wb.Settings(console="off", disable_git=True, x_disable_stats=True, x_disable_machine_info=True, x_disable_meta=True,
                          host="host", program="train.py", program_relpath="train.py", root_dir=folder)
    run = wb.init(project="small", config=CONFIG, settings=neutral)
    for step in range(1, 11):
        f = figures(step)
        run.log({"train/loss": f["loss"], "train/step_time": f["step_time"], "gpu/max_memory_allocated_gib": f["memory"] / GIB}, step=step)
    run.finish()


def wandb_gpus(file):
    """Readings of a GPU, as wandb's monitor writes them."""
    from wandb.proto import wandb_internal_pb2 as pb
    from wandb.sdk.internal.datastore import DataStore
    s = DataStore()
    s.open_for_write(file)
    for i in range(10):
        r = pb.Record(num=i + 1)
        r.stats.stats_type = pb.StatsRecord.StatsType.SYSTEM
        r.stats.timestamp.seconds = 1_700_000_000 + 15 * i
        for key, value in (("gpu.0.memoryAllocatedBytes", (40 + i) * GIB), ("gpu.0.gpu", 90 + i), ("gpu.0.memoryAllocated", 50.0 + i),
                           ("cpu", 12.5)):
            item = r.stats.item.add()
            item.key, item.value_json = key, json.dumps(value)
        s.write(r)
    s.close()


def trainer(folder):
    from transformers.trainer_callback import TrainerState
    os.makedirs(folder, exist_ok=True)
    history = [{"epoch": 0.1 * step, "step": step, "learning_rate": 0.001, "grad_norm": 1.0, "loss": figures(step)["loss"]} for step in range(1, 11)]
    history.append({"epoch": 1.0, "step": 10, "train_runtime": 2.5, "train_steps_per_second": 4.0, "train_loss": 3.45, "total_flos": 1.0})
    TrainerState(epoch=1.0, global_step=10, max_steps=10, num_train_epochs=1, train_batch_size=8, log_history=history).save_to_json(
        os.path.join(folder, "trainer_state.json"))
    with open(os.path.join(folder, "all_results.json"), "w") as f:  # as Trainer.save_metrics writes it
        json.dump({"epoch": 1.0, "train_loss": 3.45, "train_runtime": 2.5, "train_steps_per_second": 4.0}, f, indent=4, sort_keys=True)


def lightning(root, name, version):
    from lightning.pytorch.loggers import CSVLogger
    logger = CSVLogger(root, name=name, version=version)
    logger.log_hyperparams(CONFIG)
    for step in range(1, 11):
        logger.log_metrics({"epoch": 0, "train_loss": figures(step)["loss"], "gpu_mem_mb": figures(step)["memory"] / MIB}, step=step)
    logger.log_metrics({"epoch": 0, "val_loss": 9.5}, step=10)
    logger.save()


def main():
    if OUT.endswith(".wandb"):
        return wandb_gpus(OUT)
    shutil.rmtree(OUT, ignore_errors=True)
    os.makedirs(OUT)
    tensorboard(os.path.join(OUT, "tensorboard", "version_0"))
    mlflow(os.path.join(OUT, "mlruns"))
    trainer(os.path.join(OUT, "trainer"))
    lightning(OUT, "tensorboard", 0)
    wandb(os.path.join(OUT, "work"))
    for path in glob.glob(os.path.join(OUT, "**", "*"), recursive=True):  # what says nothing of the run, but of the machine
        if os.path.islink(path) or os.path.isfile(path) and (path.endswith((".log", "requirements.txt", "graph.pbtxt", "meta.yaml"))
                                                              or "/tags/" in path):
            os.remove(path)
    run, = glob.glob(os.path.join(OUT, "mlruns", "0", "*"))  # names that are the same each time
    os.rename(run, os.path.join(os.path.dirname(run), "0123456789abcdef0123456789abcdef"))
    run, = glob.glob(os.path.join(OUT, "work", "wandb", "offline-run-*"))
    os.rename(glob.glob(os.path.join(run, "*.wandb"))[0], os.path.join(run, "run-small001.wandb"))
    os.rename(run, os.path.join(os.path.dirname(run), "offline-run-20250101_000000-small001"))
    events, = glob.glob(os.path.join(OUT, "tensorboard", "version_0", "events*"))
    os.rename(events, os.path.join(os.path.dirname(events), "events.out.tfevents.1735689600.host"))


if __name__ == "__main__":
    main()
