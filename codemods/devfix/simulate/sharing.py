"""CUDA tensors sent to other processes: their memory becomes a shared CPU storage, which torch sends by itself.

On a GPU, both processes see the same memory, and so they do here: the tensor that is sent moves into shared memory, as
a CPU tensor does. Other tensors on its old memory, such as views that were made before, stay behind.
"""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
import torch.multiprocessing.reductions as reductions
from torch.multiprocessing.reductions import StorageWeakRef

from devfix.simulate.alias import cpu_alias, to_cuda
from devfix.simulate.machine import check_fork

# By address: the shared CPU storage that is there, weakly.
_shared: dict[int, StorageWeakRef] = {}
_received: dict[int, StorageWeakRef] = {}
_MANY = 1000


def install() -> None:
    for kind in (torch.Tensor, torch.nn.Parameter):
        ForkingPickler.register(kind, _reduce)


def _reduce(tensor: Any) -> Any:
    if not tensor.is_cuda or tensor.layout is not torch.strided or tensor.is_nested:
        return reductions.reduce_tensor(tensor)
    if tensor.requires_grad and not tensor.is_leaf:
        return reductions.reduce_tensor(tensor)  # which refuses
    torch.utils.hooks.warn_if_has_hooks(tensor)
    if _living(_received, tensor.untyped_storage().data_ptr()) is not None:
        raise RuntimeError(
            "Attempted to send CUDA tensor received from another process; this is not currently supported. Consider "
            "cloning before sending."
        )
    memory = _memory(tensor)
    place = tuple(tensor.size()), tensor.stride(), tensor.storage_offset()
    return _rebuild, (type(tensor), memory, tensor.dtype, place, tensor.get_device(), tensor.requires_grad)


def _memory(tensor: Any) -> Any:
    """The whole memory of a tensor as a shared CPU tensor; the tensor lives there from now on."""
    address = tensor.untyped_storage().data_ptr()
    if not address:
        return torch.empty(0, dtype=torch.uint8, device="cpu")
    known = _living(_shared, address)
    if known is not None:
        return torch.empty(0, dtype=torch.uint8, device="cpu").set_(known)
    with torch.no_grad():
        whole = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
        memory = cpu_alias(whole).clone().share_memory_()
        place = tensor.size(), tensor.stride(), tensor.storage_offset()
        tensor.data = _placed(memory, tensor.dtype, place, tensor.get_device())
    _note(_shared, memory)
    return memory


def _note(known: dict[int, StorageWeakRef], memory: Any) -> None:
    if len(known) > _MANY:
        for address in [at for at, one in known.items() if one.expired()]:
            del known[address]
    storage = memory.untyped_storage()
    known[storage.data_ptr()] = StorageWeakRef(storage)


def _living(known: dict[int, StorageWeakRef], address: int) -> Any:
    """The storage that was noted there; None if there was none, or if its memory has been freed since."""
    found = known.get(address)
    return None if found is None else torch.UntypedStorage._new_with_weak_ptr(found.cdata)


def _placed(memory: Any, dtype: Any, place: Any, index: int) -> Any:
    """A cuda tensor somewhere in shared memory."""
    size, stride, offset = place
    plain = torch.empty(0, dtype=dtype, device="cpu").set_(memory.untyped_storage(), offset, size, stride)
    return to_cuda(plain, index)


def _rebuild(kind: Any, memory: Any, dtype: Any, place: Any, index: int, requires_grad: bool) -> Any:
    check_fork()
    if memory.numel():
        _note(_received, memory)
    made = _placed(memory, dtype, place, index)
    if kind is torch.nn.Parameter:
        return torch.nn.Parameter(made, requires_grad=requires_grad)
    return made.requires_grad_(requires_grad)
