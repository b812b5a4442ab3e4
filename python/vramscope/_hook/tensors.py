"""What PyTorch tells of tensors and of nodes of autograd graphs, past any subclass of the program's."""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Optional, Tuple

from . import static

MAX_CTX = 3  # containers in each other that a ctx holds


class Torch:
    """The few things of PyTorch that tell a tensor's storage, past any subclass."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.tensor = torch.Tensor
        self.module = torch.nn.Module
        self.optimizer = torch.optim.Optimizer
        self.base = torch._C._TensorBase if not hasattr(torch._C, "TensorBase") else torch._C.TensorBase
        self.off = torch._C.DisableTorchFunction  # modes, too
        self.function_base = torch._C._FunctionBase
        self.sizes: Dict[Tuple[int, int], int] = {}  # bytes of the storages that were met
        self._nodes: Dict[int, Tuple[type, List[Any]]] = {}

    def address(self, tensor: Any) -> Optional[Tuple[int, int]]:
        """A CUDA tensor's device and its storage's address; None for any other. Of a tensor that is spread over
        ranks, those of the part that is here."""
        local = static.attribute(tensor, "_local_tensor")
        if local is not None and static.is_kind(type(local), self.tensor):
            tensor = local
        if static.attribute(tensor, "fake_device") is not None:
            return None  # of a compiler, without memory
        try:
            with self.off():
                if not self.base.is_cuda.__get__(tensor):
                    return None
                storage = self.base.untyped_storage(tensor)
                place = (self.base.get_device(tensor), storage.data_ptr())
                self.sizes[place] = storage.nbytes()
                return place if place[1] else None
        except Exception:
            return None

    def shown(self, tensor: Any) -> int:
        """The bytes of its storage that a tensor shows, at most: those of its elements."""
        local = static.attribute(tensor, "_local_tensor")
        if local is not None and static.is_kind(type(local), self.tensor):
            tensor = local
        try:
            with self.off():
                return int(self.base.numel(tensor)) * int(self.base.element_size(tensor))
        except Exception:
            return sys.maxsize  # of a layout that isn't dense

    def grad(self, tensor: Any) -> Any:
        try:
            with self.off():
                return self.base.grad.__get__(tensor) if self.base.is_leaf.__get__(tensor) else None
        except Exception:
            return None

    def hooks(self, tensor: Any) -> Any:
        try:
            with self.off():
                return self.base._backward_hooks.__get__(tensor)
        except Exception:
            return None

    def grad_fn(self, tensor: Any) -> Any:
        try:
            with self.off():
                return self.base.grad_fn.__get__(tensor)
        except Exception:
            return None

    def is_tensor(self, cls: type) -> bool:
        return static.is_kind(cls, self.tensor)

    def is_ctx(self, cls: type) -> bool:
        """Whether it is a Function's ctx, which is the node of the graph, too."""
        return static.is_kind(cls, self.function_base)

    def is_node(self, cls: type) -> bool:
        return bool(self._getters(cls)) or self.is_ctx(cls)

    def _getters(self, cls: type) -> List[Any]:
        known = self._nodes.get(id(cls))
        if known is None:
            known = self._nodes[id(cls)] = cls, static.members(cls, "_raw_saved") + static.members(cls, "variable")
        return known[1]

    def saved(self, node: Any) -> List[Any]:
        """The tensors that a node saved, unless packing hooks of the program would have to unpack them."""
        found: List[Any] = []
        cls = type(node)
        for getter in self._getters(cls):
            try:
                raw = getter.__get__(node)
            except Exception:  # freed by its backward pass
                continue
            for saved in raw if isinstance(raw, (tuple, list)) else (raw,):
                # of a class of PyTorch's own, whose data older versions lack; a leaf is the tensor itself
                data = saved if self.is_tensor(type(saved)) else getattr(saved, "data", None)
                if self.is_tensor(type(data)):
                    found.append(data)
        if self.is_ctx(cls):  # ctx.name = tensor
            for value in (static.dict_of(node) or {}).values():
                self._within(value, found)
        return found

    def _within(self, value: Any, found: List[Any], depth: int = 0) -> None:
        """Adds a tensor, or those in containers of containers."""
        if self.is_tensor(type(value)):
            found.append(value)
        elif static.container_of(type(value)) is not None and depth < MAX_CTX:
            for _, part in static.elements(value):
                self._within(part, found, depth + 1)
