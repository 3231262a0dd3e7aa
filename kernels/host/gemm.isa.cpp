// Matrix product, blocked: columns of B are packed once for all threads, rows of A by the thread that
// multiplies them. Threads split m or n; k is never split but at multiples of 512, where a chain ends by
// contract.
#include "kernels/host/isa.hpp"
#include "kernels/host/panels.hpp"

namespace zp::kernels::ZP_ISA {
namespace {

// Below this many products a loop over threads costs more than it saves.
constexpr int64_t kWorthSharing = 1 << 16;

// Rows of a tile. Where there are 32 registers, more than attention takes, whose blocks end at the diagonal.
constexpr int64_t kHighRows = kLanes == 16 ? 12 : kTileRows;
static_assert(kPanelRows % kHighRows == 0);

int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Rows a thread packs at once: all threads get blocks of about the same height.
int64_t block_rows(int64_t m, int64_t threads) {
  const int64_t blocks = ceil_div(ceil_div(m, kPanelRows), threads) * threads;
  return lesser(kPanelRows, ceil_div(ceil_div(m, blocks), kHighRows) * kHighRows);
}

// One block of columns and one of k: the range that is packed at once.
struct Block {
  int64_t column, columns, k, depth;
};

template <class T>
struct Product {
  Operand<float> a;
  Operand<T> b;
  float* c;
  int64_t m, n, k;
  Write write;

  void pack_columns(const Block& block, int64_t panel, float* packed) const {
    const int64_t column = panel * kTileColumns;
    pack<kTileColumns>(b.at(block.column + column, block.k), lesser(kTileColumns, block.columns - column),
                       block.depth, packed + column * block.depth);
  }

  void multiply(const Block& block, int64_t row, int64_t rows, const float* packed_b, float* packed_a) const {
    const Into into = block.k > 0 || write == Write::accumulate ? Into::add : Into::store;
    pack_panels<kHighRows>(a.at(row, block.k), rows, block.depth, packed_a);
    for (int64_t column = 0; column < block.columns; column += kTileColumns) {
      multiply_packed<kHighRows>(into, block.depth, packed_a, packed_b + column * block.depth,
                                 c + row * n + block.column + column, n, rows,
                                 lesser(kTileColumns, block.columns - column));
    }
  }
};

template <class T>
void multiply(HostContext& context, const Product<T>& product) {
  const bool shared = product.m * product.n * product.k >= kWorthSharing;
  const int64_t threads = shared ? context.pool.threads() : 1;
  float* packed_b = context.workspace;
  float* all_packed_a = packed_b + kPanelDepth * kPanelColumns;
  const int64_t height = block_rows(product.m, threads);
  const int64_t blocks = ceil_div(product.m, height);
  const auto loop = [&](int64_t count, const auto& body) {
    if (shared) {
      context.pool.parallel_for(count, body);
    } else {
      for (int64_t i = 0; i < count; ++i) body(i, 0);
    }
  };
  for (int64_t column = 0; column < product.n; column += kPanelColumns) {
    for (int64_t k = 0; k < product.k; k += kPanelDepth) {
      const Block block{column, lesser(kPanelColumns, product.n - column), k,
                        lesser(kPanelDepth, product.k - k)};
      loop(ceil_div(block.columns, kTileColumns),
           [&](int64_t panel, int) { product.pack_columns(block, panel, packed_b); });
      loop(blocks, [&](int64_t i, int worker) {
        const int64_t row = i * height;
        product.multiply(block, row, lesser(height, product.m - row), packed_b,
                         all_packed_a + worker * kPanelRows * kPanelDepth);
      });
    }
  }
}

template <class T>
void run_as(HostContext& context, const Gemm& call, const T* b) {
  const bool a_turned = call.a_stored == Transpose::yes;
  const bool b_turned = call.b_stored == Transpose::yes;
  const Product<T> product{
      .a = {call.a.read<float>(), a_turned ? 1 : call.k, a_turned ? call.m : 1},
      .b = {b, b_turned ? call.k : 1, b_turned ? 1 : call.n},
      .c = call.c.write<float>(),
      .m = call.m,
      .n = call.n,
      .k = call.k,
      .write = call.write,
  };
  multiply(context, product);
}

}  // namespace

void run(HostContext& context, const Gemm& call) {
  if (call.m == 0 || call.n == 0) return;
  if (call.k == 0) {  // the chain is +0
    float* c = call.c.write<float>();
    for (int64_t i = 0; i < call.m * call.n; ++i) c[i] = call.write == Write::overwrite ? 0.0F : c[i] + 0.0F;
    return;
  }
  if (call.b.type() == Type::bf16) {
    run_as(context, call, reinterpret_cast<const uint16_t*>(call.b.read<bf16>()));
  } else {
    run_as(context, call, call.b.read<float>());
  }
}

}  // namespace zp::kernels::ZP_ISA
