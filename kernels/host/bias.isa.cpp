// A bias for every column of a matrix, and its gradient.
#include "kernels/host/elements.hpp"
#include "kernels/host/isa.hpp"

namespace zp::kernels::ZP_ISA {
namespace {

// Rows that are added while a column's sum is in a register.
constexpr int64_t kRowsAtOnce = 8;

}  // namespace

void run(HostContext& context, const AddBias& call) {
  const int64_t rows = call.rows, columns = call.columns;
  with_type(call.bias.type(), [&](auto zero) {
    const float* x = call.x.read<float>();
    const auto* bias = call.bias.read<decltype(zero)>();
    float* y = call.y.write<float>();
    over_rows(context.pool, rows, columns, [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t at = row * columns;
        over_lanes(0, columns, [=](auto lanes, int64_t c) {
          write(lanes, y + at + c, read(lanes, x + at + c) + read(lanes, bias + c));
        });
      }
    });
  });
}

void run(HostContext& context, const BiasBackward& call) {
  const int64_t rows = call.rows, columns = call.columns;
  const float* dy = call.dy.read<float>();
  float* dbias = call.dbias.write<float>();
  over_columns(context.pool, columns, [=](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) dbias[c] = 0.0F;
    in_groups<kRowsAtOnce>(0, rows, [=](auto count, int64_t row) {
      over_lanes(begin, end, [=](auto lanes, int64_t c) {
        Floats sum = read(lanes, dbias + c);
        for (int64_t r = 0; r < count; ++r) sum = sum + read(lanes, dy + (row + r) * columns + c);
        write(lanes, dbias + c, sum);
      });
    });
  });
}

}  // namespace zp::kernels::ZP_ISA
