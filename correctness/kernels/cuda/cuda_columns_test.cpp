// Sums of columns, and layer norm backward in which they are, of many rows and of odd widths: CUDA code has
// the host's bits.
#include "correctness/kernels/cuda/both_tables.hpp"

namespace zp::kernels {
namespace {

TEST(CudaLayerNorm, WritesOverItsGradientAndLeavesFrozenOnesAlone) {
  for (const bool frozen : {false, true}) {
    for (const Write write : {Write::overwrite, Write::accumulate}) {
      constexpr int64_t rows = 131, width = 37;
      BothTables tables;
      const Twin x = tables.put(data(rows * width, 1)), gain = tables.put(data(width, 2));
      const Twin mean = tables.put(data(rows, 3)), rstd = tables.put(data(rows, 4));
      const Twin dy = tables.put(data(rows * width, 5)), dx = tables.put(data(rows * width, 6));
      const Twin dgain = tables.space(Type::f32, width), dbias = tables.space(Type::f32, width);
      tables.run([&](Side side) {
        return LayerNormBackward{.x = x.of(side),
                                 .gain = gain.of(side),
                                 .mean = mean.of(side),
                                 .rstd = rstd.of(side),
                                 .dy = dy.of(side),
                                 .dx = write == Write::overwrite ? dy.of(side) : dx.of(side),
                                 .dgain = frozen ? View() : dgain.of(side),
                                 .dbias = frozen ? View() : dbias.of(side),
                                 .rows = rows,
                                 .width = width,
                                 .write = write};
      });
      for (const Twin& result : {dy, dx, dgain, dbias}) EXPECT_TRUE(same_bits<float>(result)) << frozen;
    }
  }
}

struct ColumnsShape {
  int64_t rows, width, shift;
};

// Rings of 5 and of 10 tiles of 64 rows: that are not full, that are, and that go round; blocks of 16
// columns, the last of them not whole; runs of four that one access brings, and that lie or end where it must
// not.
TEST(CudaColumns, AddRowsThroughEveryTile) {
  for (const ColumnsShape& shape :
       {ColumnsShape{63, 16, 0}, ColumnsShape{64, 17, 0}, ColumnsShape{576, 20, 0}, ColumnsShape{640, 4, 1},
        ColumnsShape{641, 36, 0}, ColumnsShape{705, 18, 0}, ColumnsShape{1409, 20, 0}}) {
    const int64_t rows = shape.rows, width = shape.width;
    BothTables tables;
    const Twin x = tables.put(data(rows * width, 1), shape.shift), gain = tables.put(data(width, 2));
    const Twin mean = tables.put(data(rows, 3)), rstd = tables.put(data(rows, 4));
    const Twin dy = tables.put(data(rows * width, 5)), dx = tables.put(data(rows * width, 6));
    const Twin dgain = tables.space(Type::f32, width), dbias = tables.space(Type::f32, width);
    const Twin sums = tables.space(Type::f32, width);
    tables.run([&](Side side) {
      return BiasBackward{.dy = x.of(side), .dbias = sums.of(side), .rows = rows, .columns = width};
    });
    tables.run([&](Side side) {
      return LayerNormBackward{.x = x.of(side),
                               .gain = gain.of(side),
                               .mean = mean.of(side),
                               .rstd = rstd.of(side),
                               .dy = dy.of(side),
                               .dx = dx.of(side),
                               .dgain = dgain.of(side),
                               .dbias = dbias.of(side),
                               .rows = rows,
                               .width = width,
                               .write = Write::overwrite};
    });
    for (const Twin& result : {sums, dgain, dbias}) {
      EXPECT_TRUE(same_bits<float>(result)) << rows << " x " << width;
    }
  }
}

}  // namespace
}  // namespace zp::kernels
