// The kernels of simulated devices without Python: where all tensors are on one device, the CPU's kernel runs on their
// memory. Whatever else there is to do about a call is Python's (kernels.py), whose kernels stand under another key.

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/CPUAllocator.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <vector>

using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::IValue;
using torch::jit::Stack;

namespace {

constexpr DispatchKey PYTHON = DispatchKey::PrivateUse3; // where the kernels of Python are
constexpr int64_t STEP = 512, SEGMENT = int64_t(1) << 21; // of CUDA's allocator
constexpr int64_t LARGE = int64_t(1) << 28; // elements: from there on, Python asks whether there is room
constexpr int DEVICES = 64;

// As in native.py.
struct Memory {
  std::atomic<int64_t> allocated, blocks, peak, reserved, ever, ever_blocks;
};
struct Shared {
  int64_t careful; // there is more to do for each kernel
  int64_t used; // CUDA has been used, so that forks are known to be late
  int64_t devices;
  std::atomic<int64_t> kernels;
  Memory memory[DEVICES];
};
Shared* shared = nullptr;

// What must hold of a call besides (native.py).
enum Wants { FLOATS = 1, SAME = 2, LONGS = 4, DETERMINISM = 8, NO_MASK = 16, NOT_WIDENED = 32, ROOM = 64 };

// --- the same memory as a CPU tensor and as a cuda tensor -----------------------------------------------------------

struct Block {
  c10::Storage memory; // the CPU's
  int64_t bytes;
  int index;
};

int64_t in_steps(int64_t bytes, int64_t step) {
  return (bytes + step - 1) / step * step;
}

void reach(std::atomic<int64_t>& most, int64_t value) {
  auto known = most.load();
  while (known < value && !most.compare_exchange_weak(known, value)) {
  }
}

void allocate(int index, int64_t bytes) {
  auto& memory = shared->memory[index];
  auto allocated = memory.allocated += bytes;
  memory.blocks += bytes != 0;
  memory.ever += bytes;
  memory.ever_blocks += bytes != 0;
  reach(memory.peak, allocated);
  reach(memory.reserved, in_steps(allocated, SEGMENT));
}

void release(void* held) {
  auto* block = static_cast<Block*>(held);
  shared->memory[block->index].allocated -= block->bytes;
  shared->memory[block->index].blocks -= block->bytes != 0;
  delete block;
}

void release_alias(void* held) {
  delete static_cast<c10::Storage*>(held);
}

c10::Storage made(c10::DataPtr data, const c10::Storage& like) {
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), like.nbytes(), std::move(data), nullptr, false));
}

c10::Storage on_cpu(const c10::Storage& storage) {
  auto* data = storage.unsafeGetStorageImpl()->mutable_data();
  return made(c10::DataPtr(data, new c10::Storage(storage), &release_alias, at::kCPU), storage);
}

c10::Storage on_device(const c10::Storage& storage, int index) {
  const auto& data = storage.data_ptr();
  if (data.get_deleter() == &release_alias) {
    const auto& origin = *static_cast<c10::Storage*>(data.get_context());
    if (origin.device().index() == index) {
      return origin;
    }
  }
  auto* address = storage.unsafeGetStorageImpl()->mutable_data();
  auto bytes = in_steps(static_cast<int64_t>(storage.nbytes()), STEP);
  allocate(index, bytes);
  auto device = at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(index));
  return made(c10::DataPtr(address, new Block{storage, bytes, index}, &release, device), storage);
}

at::Tensor relabelled(const at::Tensor& tensor, c10::Storage storage, DispatchKey key) {
  auto made = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), DispatchKeySet(key), tensor.dtype());
  auto* impl = made.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    impl->set_wrapped_number(true);
  }
  if (tensor.is_conj()) {
    made._set_conj(true);
  }
  if (tensor.is_neg()) {
    made._set_neg(true);
  }
  return made;
}

bool is_dense(const at::Tensor& tensor) {
  auto* impl = tensor.unsafeGetTensorImpl();
  return tensor.layout() == at::kStrided && impl->has_storage() && !impl->is_python_dispatch() &&
      !impl->has_symbolic_sizes_strides() && !tensor.is_nested() && !tensor.is_quantized();
}

bool is_plain(const at::Tensor& tensor) {
  return is_dense(tensor) && !tensor.is_conj() && !tensor.is_neg() && !tensor._is_zerotensor();
}

// --- a call ----------------------------------------------------------------------------------------------------------

struct Call {
  int index = -1; // of the device that all are on
  bool has_floats = false, has_others = false, has_longs_only = true, is_same = true, has_mask = false;
  std::optional<at::ScalarType> type;
  std::vector<std::pair<at::Tensor, at::Tensor>> aliases; // a tensor of the device, and that of the CPU

  // False where it is not as simple as that.
  bool meet(int device) {
    bool first = index < 0;
    index = first ? device : index;
    return index == device;
  }

  bool lower(const at::Tensor& tensor, at::Tensor& alias) {
    if (!tensor.defined() || (tensor.is_cpu() && tensor.unsafeGetTensorImpl()->is_wrapped_number())) {
      alias = tensor;
      return true;
    }
    if (!tensor.is_cuda() || !is_plain(tensor) || !meet(tensor.get_device())) {
      return false;
    }
    auto kind = tensor.scalar_type();
    bool is_float = at::isFloatingType(kind);
    if (aliases.empty()) {
      has_floats = is_float;
    }
    is_same = is_same && (!type || *type == kind);
    type = kind;
    has_longs_only = has_longs_only && (is_float || at::isComplexType(kind) || kind == at::kLong);
    has_mask = has_mask || kind == at::kBool || kind == at::kByte;
    alias = relabelled(tensor, on_cpu(tensor.storage()), DispatchKey::CPU);
    aliases.emplace_back(tensor, alias);
    return true;
  }

  bool lower(IValue& value) {
    if (value.isTensor()) {
      at::Tensor alias;
      bool simple = lower(value.toTensor(), alias);
      value = std::move(alias);
      return simple;
    }
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) {
        at::Tensor alias;
        if (!lower(tensor, alias)) {
          return false;
        }
        list.push_back(alias);
      }
      value = list;
      return true;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
        at::Tensor alias;
        if (tensor && !lower(*tensor, alias)) {
          return false;
        }
        list.push_back(tensor ? std::optional<at::Tensor>(alias) : std::nullopt);
      }
      value = list;
      return true;
    }
    if (value.isDevice()) {
      auto device = value.toDevice();
      if (!device.is_cuda() || !(device.has_index() || shared->devices == 1)) {
        return false;
      }
      value = at::Device(at::kCPU);
      int at = device.has_index() ? device.index() : 0;
      return at < shared->devices && meet(at);
    }
    return true;
  }

  // The result as a tensor of the device; undefined where it is one of another kind.
  at::Tensor raised(const at::Tensor& result) const {
    if (!is_dense(result)) {
      return {};
    }
    if (result.storage().data_ptr().get_deleter() == &release_alias) {
      for (const auto& [tensor, alias] : aliases) {
        if (result.is_same(alias)) {
          return tensor;
        }
      }
    }
    return relabelled(result, on_device(result.storage(), index), DispatchKey::CUDA);
  }

  bool raise(IValue& result) const {
    if (result.isTensor()) {
      auto tensor = result.toTensor();
      if (tensor.defined()) {
        result = raised(tensor);
        return result.toTensor().defined();
      }
    } else if (result.isTensorList()) {
      c10::List<at::Tensor> list;
      c10::Storage last, placed; // of results that share their memory
      for (const at::Tensor& tensor : result.toTensorVector()) {
        if (!tensor.defined()) {
          list.push_back(tensor);
          continue;
        }
        bool again = last && tensor.has_storage() && tensor.storage().is_alias_of(last);
        auto made = again ? relabelled(tensor, placed, DispatchKey::CUDA) : raised(tensor);
        if (!made.defined()) {
          return false;
        }
        last = tensor.storage();
        placed = made.storage();
        list.push_back(std::move(made));
      }
      result = list;
    }
    return true;
  }
};

class Kernel final : public c10::OperatorKernel {
 public:
  explicit Kernel(int wants) : wants_(wants) {}

  void operator()(const c10::OperatorHandle& operation, DispatchKeySet, Stack* stack) {
    if (shared->careful || !run(operation, stack)) {
      operation.callBoxedForDispatchKey(PYTHON, *stack);
    }
  }

 private:
  bool allows(const Call& call, const Stack& arguments) const {
    if ((wants_ & FLOATS && !call.has_floats) || (wants_ & SAME && !call.is_same) ||
        (wants_ & LONGS && !call.has_longs_only) || (wants_ & NO_MASK && call.has_mask) ||
        (wants_ & DETERMINISM && at::globalContext().deterministicAlgorithms())) {
      return false;
    }
    if (wants_ & NOT_WIDENED) { // of softmax, and of its backward pass
      const auto& last = arguments.back();
      return last.isBool() ? !last.toBool() : call.type && last.toInt() == static_cast<int64_t>(*call.type);
    }
    if (wants_ & ROOM) {
      for (const auto& value : arguments) {
        if (value.isBool() && value.toBool()) { // pinned
          return false;
        }
      }
      int64_t count = 1;
      for (int64_t size : arguments.front().toIntVector()) {
        count = size > LARGE ? LARGE : count * size;
        if (size < 0 || count >= LARGE) {
          return false;
        }
      }
      return shared->used;
    }
    return true;
  }

  bool run(const c10::OperatorHandle& operation, Stack* stack) const {
    const size_t count = operation.schema().arguments().size();
    Stack lowered(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
    Call call;
    for (auto& value : lowered) {
      if (!call.lower(value)) {
        return false;
      }
    }
    if (call.index < 0 || !allows(call, lowered)) {
      return false;
    }
    try {
      c10::impl::ExcludeDispatchKeyGuard without(DispatchKeySet(DispatchKey::AutocastCPU));
      operation.redispatchBoxed(DispatchKeySet(DispatchKey::CPU), &lowered);
    } catch (const c10::Error&) { // Python asks what CUDA says of it
      return false;
    }
    for (auto& result : lowered) {
      if (!call.raise(result)) {
        return false;
      }
    }
    shared->kernels++;
    torch::jit::drop(*stack, count);
    stack->insert(stack->end(), lowered.begin(), lowered.end());
    return true;
  }

  int wants_;
};

// Only shapes: the CPU's kernel works on the cuda tensor itself.
void view(const c10::OperatorHandle& operation, DispatchKeySet, Stack* stack) {
  operation.callBoxedForDispatchKey(DispatchKey::CPU, *stack);
}

// A copy within the devices, or one that waits for the CPU.
class Copy final : public c10::OperatorKernel {
 public:
  void operator()(const c10::OperatorHandle& operation, DispatchKeySet, Stack* stack) {
    if (shared->careful || !run(operation, stack)) {
      operation.callBoxedForDispatchKey(PYTHON, *stack);
    }
  }

 private:
  static bool run(const c10::OperatorHandle& operation, Stack* stack) {
    auto arguments = torch::jit::last(*stack, 3);
    const at::Tensor self = arguments[0].toTensor(), source = arguments[1].toTensor();
    if (!is_plain(self) || !is_plain(source) || arguments[2].toBool()) {
      return false;
    }
    Stack lowered;
    for (const auto& tensor : {self, source}) {
      if (!tensor.is_cuda() && !tensor.is_cpu()) {
        return false;
      }
      lowered.emplace_back(
          tensor.is_cuda() ? relabelled(tensor, on_cpu(tensor.storage()), DispatchKey::CPU) : tensor);
    }
    lowered.emplace_back(false);
    try {
      operation.redispatchBoxed(DispatchKeySet(DispatchKey::CPU), &lowered);
    } catch (const c10::Error&) {
      return false;
    }
    shared->kernels++;
    torch::jit::drop(*stack, 3);
    stack->emplace_back(self);
    return true;
  }
};

at::Tensor relabel(const at::Tensor& tensor, int64_t index) {
  return index < 0 ? relabelled(tensor, on_cpu(tensor.storage()), DispatchKey::CPU)
                   : relabelled(tensor, on_device(tensor.storage(), static_cast<int>(index)), DispatchKey::CUDA);
}

// What resizing a storage does on CUDA: other memory, and what fits of the old one in it.
void resize(const at::Tensor& tensor, int64_t bytes) {
  auto* storage = tensor.storage().unsafeGetStorageImpl();
  int index = tensor.get_device();
  c10::Storage memory(c10::Storage::use_byte_size_t(), bytes, c10::GetCPUAllocator(), false);
  auto* address = memory.unsafeGetStorageImpl()->mutable_data();
  auto kept = std::min<int64_t>(bytes, static_cast<int64_t>(storage->nbytes()));
  if (kept > 0) {
    std::memcpy(address, storage->mutable_data(), kept);
  }
  auto size = in_steps(bytes, STEP);
  allocate(index, size);
  storage->set_data_ptr_noswap(c10::DataPtr(address, new Block{memory, size, index}, &release, tensor.device()));
  storage->set_nbytes(bytes);
}

} // namespace

#ifdef _WIN32
#define EXPORTED extern "C" __declspec(dllexport)
#else
#define EXPORTED extern "C"
#endif

// Begins with what Python and these kernels both know, and with two operators for Python.
EXPORTED void devfix_share(Shared* given) {
  shared = given;
  static auto* library = new torch::Library(torch::Library::DEF, "devfix", std::nullopt, __FILE__, __LINE__);
  library->def("relabel(Tensor self, int index) -> Tensor");
  library->def("resize_storage(Tensor self, int bytes) -> ()");
  library->impl("relabel", torch::dispatch(DispatchKey::CPU, &relabel));
  library->impl("resize_storage", torch::dispatch(DispatchKey::CUDA, &resize));
}

// Registers kernels for CUDA: of each operation, what it wants, or -1 for a view and -2 for a copy.
EXPORTED void devfix_register(const char* const* names, const int* wants, int count) {
  static auto* library =
      new torch::Library(torch::Library::IMPL, "aten", DispatchKey::CUDA, __FILE__, __LINE__);
  for (int at = 0; at < count; at++) {
    auto function = wants[at] == -1 ? torch::CppFunction::makeFromBoxedFunction<&view>()
        : wants[at] == -2           ? torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Copy>())
                                    : torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Kernel>(wants[at]));
    library->impl(names[at], std::move(function));
  }
}
