// Entry points of the emulated cuBLASLt: as much of it as is called. Signatures are NVIDIA's. What is refused
// is said on standard error, with the rule that it breaks.
#include <cublasLt.h>

#include <array>
#include <cstring>

#include "correctness/cuda_emulator/cublaslt_product.hpp"
#include "correctness/cuda_emulator/enqueue.hpp"
#include "correctness/cuda_emulator/fault.hpp"
#include "correctness/cuda_emulator/memory.hpp"

// What cublasLtHandle_t points to.
struct cublasLtContext {
  int device;
};

namespace zp::emulated {
namespace {

constexpr std::uint64_t kScratch = 4096;  // workspace that every algorithm here wants

// What lies in the library's opaque objects.
struct OperationFields {
  static constexpr std::uint64_t kMark = 0x6f7065726174696fU;
  std::uint64_t mark = kMark;
  std::int32_t compute = 0, scale = 0, transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
};
struct LayoutFields {
  static constexpr std::uint64_t kMark = 0x6c61796f75742121U;
  std::uint64_t mark = kMark;
  std::uint64_t rows = 0, columns = 0;
  std::int64_t leading = 0;
  std::int32_t type = 0;
};
struct PreferenceFields {
  static constexpr std::uint64_t kMark = 0x7072656665726e63U;
  std::uint64_t mark = kMark;
  std::uint64_t workspace = 0;
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::array<std::uint32_t, 4> alignments{256, 256, 256, 256};  // of A, B, C and D
};
struct AlgorithmFields {
  static constexpr std::uint64_t kMark = 0x616c676f72697468U;
  std::uint64_t mark = kMark;
  std::array<std::uint32_t, 4> alignments{};
  std::int32_t tile = 0;
};

// Made objects begin with their mark, and destroyed ones do not.
template <class Fields, class Opaque>
Fields read(const Opaque* opaque) {
  static_assert(sizeof(Fields) <= sizeof(Opaque));
  Fields fields;
  if (opaque == nullptr) {
    fields.mark = 0;
  } else {
    std::memcpy(static_cast<void*>(&fields), opaque, sizeof fields);
  }
  return fields;
}
template <class Fields>
bool is_made(const Fields& fields) {
  return fields.mark == Fields::kMark;
}
template <class Fields, class Opaque>
cublasStatus_t make(Opaque** made, const Fields& fields) {
  *made = new Opaque{};
  std::memcpy(*made, &fields, sizeof fields);
  return CUBLAS_STATUS_SUCCESS;
}
template <class Fields, class Opaque>
cublasStatus_t destroy(Opaque* opaque, const char* call) {
  if (!is_made(read<Fields>(opaque))) {
    note("%s: an object that was never made, or is destroyed", call);
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  delete opaque;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t refuse_value(const char* what) {
  note("cuBLASLt: %s", what);
  return CUBLAS_STATUS_INVALID_VALUE;
}

template <class T>
cublasStatus_t take(T& into, const void* from, std::size_t bytes) {
  if (from == nullptr || bytes != sizeof into) return refuse_value("an attribute of another size");
  std::memcpy(&into, from, sizeof into);
  return CUBLAS_STATUS_SUCCESS;
}

// The parts of one call, read from their objects.
struct Parts {
  OperationFields operation;
  std::array<LayoutFields, 4> layouts;  // of A, B, C and D
};

Parts parts_of(const cublasLtMatmulDescOpaque_t* operation,
               const std::array<const cublasLtMatrixLayoutOpaque_t*, 4>& layouts) {
  Parts parts{.operation = read<OperationFields>(operation), .layouts = {}};
  for (std::size_t i = 0; i < layouts.size(); ++i) parts.layouts[i] = read<LayoutFields>(layouts[i]);
  return parts;
}

Matrix matrix_of(const LayoutFields& layout, bool transposed, const void* data) {
  return {.data = data,
          .type = static_cast<cudaDataType_t>(layout.type),
          .rows = layout.rows,
          .columns = layout.columns,
          .leading = layout.leading,
          .transposed = transposed};
}

const char* against_shapes(const Parts& parts) {
  if (!is_made(parts.operation)) return "an operation that was never made, or is destroyed";
  for (const LayoutFields& layout : parts.layouts) {
    if (!is_made(layout)) return "a layout that was never made, or is destroyed";
    if (layout.rows == 0 || layout.columns == 0) return "a matrix without elements";
    if (layout.leading < static_cast<std::int64_t>(layout.rows)) return "a leading dimension below the rows";
  }
  const auto& [a, b, c, d] = parts.layouts;
  const Matrix left = matrix_of(a, parts.operation.transpose_a != CUBLAS_OP_N, nullptr);
  const Matrix right = matrix_of(b, parts.operation.transpose_b != CUBLAS_OP_N, nullptr);
  if (left.column_count() != right.row_count()) return "A has as many columns as B has rows";
  if (c.rows != left.row_count() || c.columns != right.column_count()) return "C is as large as the product";
  if (d.rows != c.rows || d.columns != c.columns || d.leading != c.leading) return "D is stored as C is";
  return nullptr;
}

bool is_emulated(const Parts& parts) {
  const auto& [a, b, c, d] = parts.layouts;
  return parts.operation.compute == CUBLAS_COMPUTE_32F && parts.operation.scale == CUDA_R_32F &&
         a.type == b.type && (a.type == CUDA_R_16BF || a.type == CUDA_R_32F) && c.type == CUDA_R_32F &&
         d.type == CUDA_R_32F;
}

bool lies_on_the_device(const void* address, std::uint64_t bytes) {
  const Found found = find_memory(address, bytes);
  const bool elsewhere = found.allocation.home == Home::device && found.allocation.device != current_device();
  return found.whole && found.allocation.home != Home::pageable && !elsewhere;
}

bool is_aligned(const void* address, std::uint32_t to) {
  return reinterpret_cast<std::uintptr_t>(address) % to == 0;
}

const char* against_memory(const ProductCall& call, const AlgorithmFields& algorithm) {
  const std::array<const void*, 4> starts{call.a.data, call.b.data, call.c.data, call.d};
  const std::array<std::uint64_t, 4> bytes{call.a.bytes(), call.b.bytes(), call.c.bytes(), call.c.bytes()};
  for (std::size_t i = 0; i < starts.size(); ++i) {
    if (!lies_on_the_device(starts[i], bytes[i])) return "a matrix that is not all in memory of the device";
    if (!is_aligned(starts[i], algorithm.alignments[i]))
      return "a matrix less aligned than the algorithm wants";
  }
  if (call.workspace_bytes < kScratch) return "a workspace smaller than the algorithm wants";
  if (!lies_on_the_device(call.workspace, call.workspace_bytes))
    return "a workspace that is not the device's";
  return is_aligned(call.workspace, 16) ? nullptr : "a workspace that is not aligned to 16 bytes";
}

}  // namespace
}  // namespace zp::emulated

using namespace zp::emulated;

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext{current_device()};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

std::size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    default: return "a status that is never returned here";
  }
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  OperationFields fields;
  fields.compute = compute;
  fields.scale = scale;
  return make(made, fields);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
  return destroy<OperationFields>(operation, "cublasLtMatmulDescDestroy");
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation,
                                              cublasLtMatmulDescAttributes_t which, const void* from,
                                              std::size_t bytes) {
  auto fields = read<OperationFields>(operation);
  if (!is_made(fields)) return refuse_value("an operation that was never made, or is destroyed");
  cublasStatus_t status = CUBLAS_STATUS_INVALID_VALUE;
  if (which == CUBLASLT_MATMUL_DESC_TRANSA) {
    status = take(fields.transpose_a, from, bytes);
  } else if (which == CUBLASLT_MATMUL_DESC_TRANSB) {
    status = take(fields.transpose_b, from, bytes);
  } else {
    note("cublasLtMatmulDescSetAttribute: attribute %d is not emulated", static_cast<int>(which));
  }
  std::memcpy(operation, &fields, sizeof fields);
  return status;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t leading) {
  LayoutFields fields;
  fields.rows = rows;
  fields.columns = columns;
  fields.leading = leading;
  fields.type = type;
  return make(made, fields);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy<LayoutFields>(layout, "cublasLtMatrixLayoutDestroy");
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  return make(made, PreferenceFields{});
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy<PreferenceFields>(preference, "cublasLtMatmulPreferenceDestroy");
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t which,
                                                    const void* from, std::size_t bytes) {
  auto fields = read<PreferenceFields>(preference);
  if (!is_made(fields)) return refuse_value("a preference that was never made, or is destroyed");
  cublasStatus_t status = CUBLAS_STATUS_INVALID_VALUE;
  if (which == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    status = take(fields.workspace, from, bytes);
  } else if (which == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) {
    status = take(fields.reductions, from, bytes);
  } else if (which >= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES &&
             which <= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES) {
    const auto matrix = static_cast<std::size_t>(which - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
    status = take(fields.alignments[matrix], from, bytes);
  } else {
    note("cublasLtMatmulPreferenceSetAttribute: attribute %d is not emulated", static_cast<int>(which));
  }
  std::memcpy(preference, &fields, sizeof fields);
  return status;
}

// One algorithm, in two tiles, which wants the alignment that was stated.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results, int* found) {
  const auto preferred = read<PreferenceFields>(preference);
  const Parts parts = parts_of(operation, {a, b, c, d});
  if (const char* wrong = against_shapes(parts)) return refuse_value(wrong);
  if (!is_made(preferred) || wanted < 1)
    return refuse_value("a preference and at least one result are wanted");
  *found = 0;
  if (!is_emulated(parts) || preferred.workspace < kScratch) return CUBLAS_STATUS_NOT_SUPPORTED;
  AlgorithmFields algorithm;
  algorithm.alignments = preferred.alignments;
  algorithm.tile = parts.layouts[2].rows >= 64 ? 2 : 1;
  results[0] = {};
  std::memcpy(&results[0].algo, &algorithm, sizeof algorithm);
  results[0].workspaceSize = kScratch;
  results[0].state = CUBLAS_STATUS_SUCCESS;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t which, void* to,
                                                    std::size_t bytes, std::size_t* written) {
  const auto fields = read<AlgorithmFields>(algorithm);
  std::int32_t value = 0;
  if (which == CUBLASLT_ALGO_CONFIG_ID || which == CUBLASLT_ALGO_CONFIG_SPLITK_NUM) value = 1;
  if (which == CUBLASLT_ALGO_CONFIG_TILE_ID) value = fields.tile;
  if (!is_made(fields) || bytes != sizeof value) return refuse_value("no algorithm, or another size");
  std::memcpy(to, &value, sizeof value);
  *written = sizeof value;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* chosen, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  const Parts parts = parts_of(operation, {a_layout, b_layout, c_layout, d_layout});
  const auto algorithm = read<AlgorithmFields>(chosen);
  if (const char* wrong = against_shapes(parts)) return refuse_value(wrong);
  if (!is_made(algorithm)) return refuse_value("an algorithm that no heuristic named");
  if (!is_emulated(parts)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (handle->device != current_device()) return refuse_value("a handle of another device");
  if (must_be_current(stream, "cublasLtMatmul") != cudaSuccess) return CUBLAS_STATUS_INVALID_VALUE;
  ProductCall call;
  call.a = matrix_of(parts.layouts[0], parts.operation.transpose_a != CUBLAS_OP_N, a);
  call.b = matrix_of(parts.layouts[1], parts.operation.transpose_b != CUBLAS_OP_N, b);
  call.c = matrix_of(parts.layouts[2], false, c);
  call.d = static_cast<float*>(d);
  std::memcpy(&call.alpha, alpha, sizeof call.alpha);
  std::memcpy(&call.beta, beta, sizeof call.beta);
  call.workspace = workspace;
  call.workspace_bytes = workspace_bytes;
  if (const char* wrong = against_memory(call, algorithm)) return refuse_value(wrong);
  call.workspace_bytes = kScratch;
  const cudaError_t code = enqueue(stream, make_product(call));
  return code == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
