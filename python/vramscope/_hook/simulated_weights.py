"""Checkpoints without their weights: files are mapped and not read, and a model whose files aren't there is made from its
configuration."""

from __future__ import annotations

import functools
import os
import sys
from typing import Any, Callable, Dict, Optional

Patch = Callable[[Any], None]


class After:
    """Stands among the finders and changes modules when they have been imported."""

    def __init__(self, patches: Dict[str, Patch]) -> None:
        self.patches, self.asking = dict(patches), False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        patch = None if self.asking else self.patches.get(name)
        if patch is None:
            return None
        self.asking = True
        try:
            for finder in list(sys.meta_path):
                find = getattr(finder, "find_spec", None)
                spec = find(name, path, target) if find is not None else None
                if spec is not None:
                    self.follow(spec.loader, name, patch)
                    return spec
        finally:
            self.asking = False
        return None

    def follow(self, loader: Any, name: str, patch: Patch) -> None:
        execute = loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            self.patches.pop(name, None)
            patch(module)

        try:
            loader.exec_module = exec_module
        except AttributeError:
            pass  # a loader that nobody changes


def install(torch: Any, note: Callable[[str], None]) -> None:
    map_files(torch)
    patch = functools.partial(without_files, torch, note)
    loaded = sys.modules.get("transformers.modeling_utils")
    if loaded is not None:
        patch(loaded)
    else:
        sys.meta_path.insert(0, After({"transformers.modeling_utils": patch}))


def map_files(torch: Any) -> None:
    """torch.load maps files, whose pages nobody touches then."""
    load = torch.load

    @functools.wraps(load)
    def mapped(f: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(f, (str, os.PathLike)) and kwargs.get("mmap") is None:
            try:
                return load(f, *args, **{**kwargs, "mmap": True})
            except (RuntimeError, ValueError):
                pass  # of the old form, which can't be mapped
        return load(f, *args, **kwargs)

    torch.load = mapped


def without_files(torch: Any, note: Callable[[str], None], modeling: Any) -> None:
    """Transformers' models are made from their configuration where no checkpoint is."""
    cls = modeling.PreTrainedModel
    original = cls.from_pretrained.__func__

    @functools.wraps(original)
    def from_pretrained(cls: Any, name: Any = None, *args: Any, config: Any = None, **kwargs: Any) -> Any:
        try:
            return original(cls, name, *args, config=config, **kwargs)
        except OSError:
            if kwargs.get("quantization_config") is not None:
                raise
            if config is None or isinstance(config, (str, os.PathLike)):
                config = cls.config_class.from_pretrained(config or name)
            if name is not None:  # as the original does: trainers look the tokenizer up by it
                config.name_or_path = str(name)
            note(f"{cls.__name__} was made from its configuration: there is no checkpoint of {str(name)[:200]}")
            return made(torch, cls, config, kwargs)

    stand_in: Any = from_pretrained
    cls.from_pretrained = classmethod(stand_in)


def made(torch: Any, cls: Any, config: Any, kwargs: Dict[str, Any]) -> Any:
    """A model as a checkpoint would give it: its type of numbers, its place, and no dropout."""
    dtype = dtype_of(torch, config, kwargs)
    before = torch.get_default_dtype()
    if dtype is not None:
        torch.set_default_dtype(dtype)
    try:
        model = cls(config)
    finally:
        torch.set_default_dtype(before)
    place = kwargs.get("device_map")
    if isinstance(place, dict):
        place = next(iter(place.values()), None)
    if place is not None and place != "cpu":
        model.to("cuda" if place in ("auto", "balanced", "balanced_low_0", "sequential") else place)
    return model.eval()


def dtype_of(torch: Any, config: Any, kwargs: Dict[str, Any]) -> Optional[Any]:
    """What was asked for, or the configuration's where it is to decide."""
    asked = kwargs.get("dtype", kwargs.get("torch_dtype"))
    if asked == "auto":
        asked = getattr(config, "dtype", None) or getattr(config, "torch_dtype", None)
    return getattr(torch, asked, None) if isinstance(asked, str) else asked
