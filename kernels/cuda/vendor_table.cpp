// Matrix products by cuBLASLt, which counts columns first: a row-major matrix is its transpose there, and the
// product of the transposes in the other order is the transpose of C, so that nothing is moved.
#include "kernels/cuda/vendor_table.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "kernels/arguments.hpp"
#include "kernels/cuda/cublaslt.hpp"

namespace zp {

void check(const CublasLt& library, cublasStatus_t status, const char* call, Where where) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail(Exit::cuda, std::string("cuBLASLt: ") + call + ": " + library.get_status_name(status) + " (" +
                       where.file + ":" + std::to_string(where.line) + ")");
}

namespace kernels {
namespace {

constexpr int64_t kPart = 256;   // bytes that parts of the workspace are aligned to
constexpr int64_t kWidest = 16;  // bytes of the widest access that an algorithm may want

int64_t in_parts(int64_t bytes) { return (bytes + kPart - 1) / kPart * kPart; }

int64_t room_for(const VendorOptions& options, int64_t elements) {
  return options.operands == Type::f32 ? 0 : in_parts(elements * size_of(options.operands).n);
}

cudaDataType_t cuda_type(Type type) { return type == Type::bf16 ? CUDA_R_16BF : CUDA_R_32F; }

// What one create function makes and its destroy function ends.
template <class T>
class Object {
 public:
  using Destroy = cublasStatus_t (*)(T);
  Object() = default;
  Object(T object, Destroy destroy) : object_(object), destroy_(destroy) {}
  Object(Object&& other) noexcept
      : object_(std::exchange(other.object_, nullptr)), destroy_(other.destroy_) {}
  Object& operator=(Object&& other) noexcept {
    std::swap(object_, other.object_);
    std::swap(destroy_, other.destroy_);
    return *this;
  }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  ~Object() {
    if (object_ != nullptr) static_cast<void>(destroy_(object_));
  }
  T get() const { return object_; }

 private:
  T object_ = nullptr;
  Destroy destroy_ = nullptr;
};

// What identifies a product. Whether it accumulates is no part of it: the same algorithm does both.
struct Shape {
  int64_t m, n, k;
  Transpose a_stored, b_stored;
  auto key() const { return std::tuple(m, n, k, a_stored, b_stored); }
  bool operator<(const Shape& other) const { return key() < other.key(); }
};

struct Product {
  Object<cublasLtMatmulDesc_t> operation;
  Object<cublasLtMatrixLayout_t> a, b, c;  // of our A, B and C
  cublasLtMatmulAlgo_t algorithm{};
  std::string choice;
};

class CublasLtTable final : public VendorTable {
 public:
  CublasLtTable(std::unique_ptr<Table> own, Device& device, const VendorOptions& options,
                const CublasLt& library)
      : library_(library),
        own_(std::move(own)),
        options_(options),
        workspace_(device.acquire(Category::workspace, Type::f32, {vendor_workspace(options).n / 4})) {
    require(options.largest_a >= 0 && options.largest_b >= 0 && options.alignment > 0,
            "operands have a size and begin somewhere");
    cublasLtHandle_t handle = nullptr;
    check(library_, library_.create(&handle), "cublasLtCreate");
    handle_ = {handle, library_.destroy};
    workspace_.all().storage()->settle();
    auto* bytes = static_cast<std::byte*>(workspace_.all().raw()) + kVendorWorkspace.n;
    prepare(room_a_, bytes, options.largest_a);
    prepare(room_b_, bytes + room_for(options, options.largest_a), options.largest_b);
  }
  // The workspace goes back to the device: no product may still use it.
  ~CublasLtTable() override {
    if (!options_.finish) {
      static_cast<void>(cudaStreamSynchronize(options_.stream));
      return;
    }
    try {
      options_.finish();
    } catch (const Error&) {
      // Whoever waited for results was told.
    }
  }

  void run(const Call& call) override {
    const auto* gemm = std::get_if<Gemm>(&call);
    // An empty sum is no product.
    if (gemm == nullptr || gemm->m == 0 || gemm->n == 0 || gemm->k == 0) return own_->run(call);
    require_arguments(call);
    multiply(*gemm);
  }

  std::vector<std::string> choices() const override {
    std::vector<std::string> lines;
    for (const auto& [shape, product] : products_) lines.push_back(product.choice);
    return lines;
  }

 private:
  void prepare(Storage& room, void* data, int64_t elements) const {
    room.category = Category::workspace;
    room.type = options_.operands;
    room.length = {elements};
    room.data = data;
    room.far = workspace_.all().storage()->far;
  }

  // Where cuBLASLt reads an operand: where it lies, or rounded into `room`.
  const void* operand(const View& view, Storage& room) {
    if (view.type() == options_.operands) return aligned(view);
    require(view.type() == Type::f32, "operands of a product are fp32, or of its type");
    require(view.length() <= room.length, "there is room for an operand of a product");
    const View rounded(&room, {{0}, view.length()});
    own_->run(Cast{.from = view, .to = rounded});
    return rounded.raw();
  }

  // Bytes that addresses of a type are multiples of, as the options state.
  uint32_t alignment_of(Type type) const {
    return static_cast<uint32_t>(std::min(kWidest, options_.alignment * size_of(type).n));
  }
  void* aligned(const View& view) const {
    require(reinterpret_cast<uintptr_t>(view.raw()) % alignment_of(view.type()) == 0,
            "matrices begin where they were said to begin");
    return view.raw();
  }

  void multiply(const Gemm& call) {
    const void* a = operand(call.a, room_a_);
    const void* b = operand(call.b, room_b_);
    require(call.c.type() == Type::f32, "a product is fp32");
    void* c = aligned(call.c);
    const Product& product = product_of({call.m, call.n, call.k, call.a_stored, call.b_stored});
    const float alpha = 1.0F, beta = call.write == Write::accumulate ? 1.0F : 0.0F;
    check(library_,
          library_.matmul(handle_.get(), product.operation.get(), &alpha, b, product.b.get(), a,
                          product.a.get(), &beta, c, product.c.get(), c, product.c.get(), &product.algorithm,
                          workspace_.all().raw(), static_cast<size_t>(kVendorWorkspace.n), options_.stream),
          "cublasLtMatmul");
  }

  const Product& product_of(const Shape& shape) {
    const auto known = products_.find(shape);
    if (known != products_.end()) return known->second;
    Product product = describe(shape);
    choose(product, shape);
    return products_.emplace(shape, std::move(product)).first->second;
  }

  // `rows` x `columns` as it is stored, row by row.
  Object<cublasLtMatrixLayout_t> layout(Type type, int64_t rows, int64_t columns) const {
    cublasLtMatrixLayout_t made = nullptr;
    check(library_,
          library_.layout_create(&made, cuda_type(type), static_cast<uint64_t>(columns),
                                 static_cast<uint64_t>(rows), columns),
          "cublasLtMatrixLayoutCreate");
    return {made, library_.layout_destroy};
  }

  Product describe(const Shape& shape) const {
    const auto& [m, n, k, a_stored, b_stored] = shape;
    Product product;
    product.a = a_stored == Transpose::no ? layout(options_.operands, m, k) : layout(options_.operands, k, m);
    product.b = b_stored == Transpose::no ? layout(options_.operands, k, n) : layout(options_.operands, n, k);
    product.c = layout(Type::f32, m, n);
    cublasLtMatmulDesc_t operation = nullptr;
    check(library_, library_.desc_create(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
          "cublasLtMatmulDescCreate");
    product.operation = {operation, library_.desc_destroy};
    set_operation(product, CUBLASLT_MATMUL_DESC_TRANSA, b_stored);
    set_operation(product, CUBLASLT_MATMUL_DESC_TRANSB, a_stored);
    return product;
  }
  void set_operation(const Product& product, cublasLtMatmulDescAttributes_t which, Transpose stored) const {
    const int32_t operation = stored == Transpose::no ? CUBLAS_OP_N : CUBLAS_OP_T;
    check(library_, library_.desc_set(product.operation.get(), which, &operation, sizeof operation),
          "cublasLtMatmulDescSetAttribute");
  }

  Object<cublasLtMatmulPreference_t> preference() const {
    cublasLtMatmulPreference_t made = nullptr;
    check(library_, library_.preference_create(&made), "cublasLtMatmulPreferenceCreate");
    Object<cublasLtMatmulPreference_t> preference{made, library_.preference_destroy};
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t which, auto value) {
      check(library_, library_.preference_set(made, which, &value, sizeof value),
            "cublasLtMatmulPreferenceSetAttribute");
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(kVendorWorkspace.n));
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    for (const auto which :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES}) {
      set(which, alignment_of(options_.operands));
    }
    for (const auto which :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      set(which, alignment_of(Type::f32));
    }
    return preference;
  }

  void choose(Product& product, const Shape& shape) const {
    const std::string name = text_of(shape);
    cublasLtMatmulHeuristicResult_t result{};
    int found = 0;
    const cublasStatus_t status =
        library_.get_heuristic(handle_.get(), product.operation.get(), product.b.get(), product.a.get(),
                               product.c.get(), product.c.get(), preference().get(), 1, &result, &found);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && found == 0)) {
      fail(Exit::unavailable, "--math vendor: cuBLASLt has no algorithm for a product of " + name);
    }
    check(library_, status, "cublasLtMatmulAlgoGetHeuristic");
    check(library_, result.state, "cublasLtMatmulAlgoGetHeuristic");
    require(result.workspaceSize <= static_cast<size_t>(kVendorWorkspace.n),
            "an algorithm keeps to the workspace that it was offered");
    product.algorithm = result.algo;
    product.choice = name;
    const auto add = [&](const char* what, cublasLtMatmulAlgoConfigAttributes_t which) {
      int32_t value = 0;
      size_t written = 0;
      check(library_, library_.algo_get(&result.algo, which, &value, sizeof value, &written),
            "cublasLtMatmulAlgoConfigGetAttribute");
      product.choice += std::string(what) + std::to_string(value);
    };
    add(": algorithm ", CUBLASLT_ALGO_CONFIG_ID);
    add(", tile ", CUBLASLT_ALGO_CONFIG_TILE_ID);
    add(", stages ", CUBLASLT_ALGO_CONFIG_STAGES_ID);
    add(", k in ", CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
  }

  std::string text_of(const Shape& shape) const {
    return std::to_string(shape.m) + " x " + std::to_string(shape.n) + " x " + std::to_string(shape.k) +
           (shape.a_stored == Transpose::no ? " N" : " T") + (shape.b_stored == Transpose::no ? "N " : "T ") +
           std::string(name_of(options_.operands));
  }

  const CublasLt& library_;
  std::unique_ptr<Table> own_;
  VendorOptions options_;
  Buffer workspace_;
  Storage room_a_, room_b_;  // in it
  Object<cublasLtHandle_t> handle_;
  std::map<Shape, Product> products_;
};

}  // namespace

Bytes vendor_workspace(const VendorOptions& options) {
  return kVendorWorkspace +
         Bytes{room_for(options, options.largest_a) + room_for(options, options.largest_b)};
}

std::unique_ptr<VendorTable> make_vendor_table(std::unique_ptr<Table> own, Device& device,
                                               const VendorOptions& options, const CublasLt& library) {
  return std::make_unique<CublasLtTable>(std::move(own), device, options, library);
}

std::unique_ptr<VendorTable> make_vendor_table(std::unique_ptr<Table> own, Device& device,
                                               const VendorOptions& options) {
  return make_vendor_table(std::move(own), device, options, cublaslt());
}

std::string vendor_library() {
  constexpr size_t kMajor = 10000, kMinor = 100;  // in a version: 10000·major + 100·minor + patch
  const size_t version = cublaslt().get_version();
  return "cuBLASLt " + std::to_string(version / kMajor) + "." + std::to_string(version % kMajor / kMinor) +
         "." + std::to_string(version % kMinor);
}

}  // namespace kernels
}  // namespace zp
