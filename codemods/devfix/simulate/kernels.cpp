// The kernels of simulated devices without Python: where all tensors are on one device, the CPU's kernel runs on their
// memory. Whatever else there is to do about a call is Python's (kernels.py), whose kernels stand under another key.

#include "memory.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <optional>
#include <vector>

using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::IValue;
using torch::jit::Stack;

namespace {

constexpr DispatchKey PYTHON = DispatchKey::PrivateUse3; // where the kernels of Python are
constexpr int64_t LARGE = int64_t(1) << 28; // elements: from there on, Python asks whether there is room
// What must hold of a call besides (native_kernels.py).
enum Wants { FLOATS = 1, SAME = 2, LONGS = 4, DETERMINISM = 8, NO_MASK = 16, NOT_WIDENED = 32, ROOM = 64 };

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
      if (!arguments.front().isIntList()) {
        return false;
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

} // namespace

#ifdef _WIN32
#define EXPORTED extern "C" __declspec(dllexport)
#else
#define EXPORTED extern "C"
#endif

// Gives what Python and these kernels both know, and begins with two operators for Python.
EXPORTED Shared* devfix_share(int devices) {
  shared->devices = devices;
  static auto* library = new torch::Library(torch::Library::DEF, "devfix", std::nullopt, __FILE__, __LINE__);
  library->def("relabel(Tensor self, int index) -> Tensor");
  library->def("resize_storage(Tensor self, int bytes) -> ()");
  library->impl("relabel", torch::dispatch(DispatchKey::CPU, &relabel));
  library->impl("resize_storage", torch::dispatch(DispatchKey::CUDA, &resize));
  return shared;
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
