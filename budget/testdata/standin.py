"""What the programs here that were recorded on a stand-in device share."""
import ctypes

import torch


def told(step):
    """Says what a step took, by PyTorch's own counters, in bytes."""
    s = torch.cuda.memory_stats()
    print(f"step {step}: peak {s['requested_bytes.all.peak']}, reserved {s['reserved_bytes.all.peak'] / 2**30:.3f} GiB", flush=True)
    torch.cuda.reset_peak_memory_stats()


def answer(bool_):
    """What the device that computes nothing says when a truth value is read back from it."""
    ctypes.CDLL(None).fakecuda_set_bool(bool_)


def alone():
    """Has DeepSpeed ask no other rank whether it is in the same state: nobody answers."""
    from deepspeed.runtime.zero import parameter_offload, partition_parameters, partitioned_param_coordinator, stage3
    for module in (parameter_offload, partition_parameters, partitioned_param_coordinator, stage3):
        for name in ("assert_ints_same_as_other_ranks", "assert_lst_len_same_as_other_ranks"):
            if hasattr(module, name):
                setattr(module, name, lambda *args, **kwargs: None)
