// Cases that the table of kernels has no row for: views that alias or are not aligned, sums of any number of
// inputs, arguments that are refused, and values of every magnitude. CUDA code has the host's bits in each.
#include <cmath>
#include <limits>
#include <string>
#include <tuple>

#include "correctness/kernels/cuda/both_tables.hpp"

namespace zp::kernels {
namespace {

using Floats = std::vector<float>;

// Floats of every exponent and either sign, NaN and Inf excluded.
Floats every_magnitude(float largest) {
  Floats all;
  for (uint32_t bits = 0; bits < std::bit_cast<uint32_t>(largest); bits += 99991) {
    all.push_back(std::bit_cast<float>(bits));
    all.push_back(-all.back());
  }
  return all;
}

TEST(CudaFormulas, HaveTheHostsBitsAtEveryMagnitude) {
  const Floats numbers = every_magnitude(1e10F);
  const auto length = static_cast<int64_t>(numbers.size());
  BothTables tables;
  const Twin x = tables.put(numbers), dy = tables.put(data(length, 3));
  const Twin y = tables.space(Type::f32, length), dx = tables.space(Type::f32, length);
  tables.run([&](Side side) { return GeluForward{.x = x.of(side), .y = y.of(side)}; });
  tables.run([&](Side side) { return GeluBackward{.x = x.of(side), .dy = dy.of(side), .dx = dx.of(side)}; });
  EXPECT_TRUE(same_bits<float>(y));
  EXPECT_TRUE(same_bits<float>(dx));
}

TEST(CudaFormulas, RoundEveryMagnitudeToBf16) {
  Floats numbers = every_magnitude(std::numeric_limits<float>::max());
  for (const float x : {0x1.01p0F, 0x1.03p0F, std::numeric_limits<float>::infinity(), std::nanf("")})
    numbers.push_back(x);
  BothTables tables;
  const Twin from = tables.put(numbers);
  const Twin to = tables.space(Type::bf16, static_cast<int64_t>(numbers.size()));
  tables.run([&](Side side) { return Cast{.from = from.of(side), .to = to.of(side)}; });
  EXPECT_TRUE(same_bits<bf16>(to));
}

// exp and log of a row: logits of every magnitude, a few in a row.
TEST(CudaFormulas, HaveTheHostsBitsInSoftmax) {
  Floats logits = every_magnitude(3e38F);
  constexpr int64_t vocabulary = 3;
  const auto rows = static_cast<int64_t>(logits.size()) / vocabulary;
  logits.resize(static_cast<size_t>(rows * vocabulary));
  BothTables tables;
  const Twin x = tables.put(logits), targets = tables.put(std::vector<int32_t>(static_cast<size_t>(rows), 1));
  const Twin max = tables.space(Type::f32, rows), sum = tables.space(Type::f32, rows);
  const Twin each = tables.space(Type::f32, rows), loss = tables.space(Type::f32, 1);
  tables.run([&](Side side) {
    return CrossEntropyForward{.logits = x.of(side),
                               .targets = targets.of(side),
                               .row_max = max.of(side),
                               .row_sum = sum.of(side),
                               .row_loss = each.of(side),
                               .loss = loss.of(side),
                               .rows = rows,
                               .vocabulary = vocabulary};
  });
  for (const Twin& result : {max, sum, each, loss}) EXPECT_TRUE(same_bits<float>(result));
  tables.run([&](Side side) {
    return CrossEntropyBackward{.logits = x.of(side),
                                .targets = targets.of(side),
                                .row_max = max.of(side),
                                .row_sum = sum.of(side),
                                .rows = rows,
                                .vocabulary = vocabulary};
  });
  EXPECT_TRUE(same_bits<float>(x));
}

TEST(CudaElements, MayStandAnywhereAndInPlace) {
  for (const int64_t shift : {0, 1, 2, 3}) {
    for (const int64_t length : {0, 1, 3, 4, 1023, 1030}) {
      BothTables tables;
      const Twin a = tables.put(data(length, 1), shift), b = tables.put(data(length, 2), shift);
      const Twin h = tables.put(rounded(data(length, 3)), shift);
      tables.run([&](Side side) { return Add{.a = a.of(side), .b = b.of(side), .y = a.of(side)}; });
      tables.run([&](Side side) { return GeluForward{.x = a.of(side), .y = a.of(side)}; });
      tables.run(
          [&](Side side) { return GeluBackward{.x = a.of(side), .dy = b.of(side), .dx = b.of(side)}; });
      tables.run([&](Side side) { return Cast{.from = a.of(side), .to = h.of(side)}; });
      EXPECT_TRUE(same_bits<float>(a)) << shift << " " << length;
      EXPECT_TRUE(same_bits<float>(b)) << shift << " " << length;
      EXPECT_TRUE(same_bits<bf16>(h)) << shift << " " << length;
    }
  }
}

// A score that rounds to -0: the contract gives its maximum no sign.
TEST(CudaAttention, StoresAMaximumOfZeroWithoutSign) {
  BothTables tables(1, 1);
  const Twin qkv = tables.put(Floats{-0x1p-100F, 0x1p-100F, 3.0F});
  const Twin out = tables.space(Type::f32, 1), max = tables.space(Type::f32, 1),
             sum = tables.space(Type::f32, 1);
  tables.run([&](Side side) {
    return AttentionForward{.qkv = qkv.of(side),
                            .out = out.of(side),
                            .row_max = max.of(side),
                            .row_sum = sum.of(side),
                            .batch = 1,
                            .sequence = 1,
                            .width = 1,
                            .heads = 1};
  });
  for (const Twin& result : {out, max, sum}) EXPECT_TRUE(same_bits<float>(result));
  EXPECT_EQ(std::bit_cast<uint32_t>(*max.cuda.read<float>()), 0U);
}

// Heads of whole runs of four, where one access brings a run and where it must not; 68 columns are a block
// and a run of the next one.
TEST(CudaAttention, HasTheHostsBitsWhereverItsMatricesStand) {
  constexpr int64_t kSequence = 67, kHeads = 2;
  for (const auto& [head_width, shift] : {std::pair{4, 0}, std::pair{68, 0}, std::pair{20, 1}}) {
    const int64_t width = head_width * kHeads;
    BothTables tables(kSequence * kHeads, kSequence);
    const Twin qkv = tables.put(data(kSequence * 3 * width, 1), shift);
    const Twin dout = tables.put(data(kSequence * width, 2), shift);
    const Twin out = tables.space(Type::f32, kSequence * width, shift);
    const Twin dqkv = tables.space(Type::f32, kSequence * 3 * width, shift);
    const Twin max = tables.space(Type::f32, kSequence * kHeads),
               sum = tables.space(Type::f32, kSequence * kHeads);
    tables.run([&](Side side) {
      return AttentionForward{.qkv = qkv.of(side),
                              .out = out.of(side),
                              .row_max = max.of(side),
                              .row_sum = sum.of(side),
                              .batch = 1,
                              .sequence = kSequence,
                              .width = width,
                              .heads = kHeads};
    });
    tables.run([&](Side side) {
      return AttentionBackward{.qkv = qkv.of(side),
                               .row_max = max.of(side),
                               .row_sum = sum.of(side),
                               .dout = dout.of(side),
                               .dqkv = dqkv.of(side),
                               .batch = 1,
                               .sequence = kSequence,
                               .width = width,
                               .heads = kHeads};
    });
    for (const Twin& result : {out, max, sum, dqkv})
      EXPECT_TRUE(same_bits<float>(result)) << head_width << " " << shift;
  }
}

TEST(CudaEmbedding, AddsToWhatTheTableHolds) {
  constexpr int64_t rows = 100, width = 150, sequence = 7, vocabulary = 11, positions = 9;
  std::vector<int32_t> words;
  for (int64_t r = 0; r < rows; ++r)
    words.push_back(static_cast<int32_t>(random_bits(1, static_cast<uint64_t>(r)) % 10));
  for (const Write write : {Write::overwrite, Write::accumulate}) {
    BothTables tables;
    const Twin tokens = tables.put(words), dx = tables.put(data(rows * width, 2));
    const Twin dtoken = tables.put(data(vocabulary * width, 3));
    const Twin dposition = tables.space(Type::f32, positions * width);
    tables.run([&](Side side) {
      return EmbeddingBackward{.tokens = tokens.of(side),
                               .dx = dx.of(side),
                               .dtoken = dtoken.of(side),
                               .dposition = dposition.of(side),
                               .rows = rows,
                               .sequence = sequence,
                               .width = width,
                               .write_tokens = write};
    });
    EXPECT_TRUE(same_bits<float>(dtoken));
    EXPECT_TRUE(same_bits<float>(dposition));
  }
}

TEST(CudaFold, TakesAnyNumberOfInputsOfAnyType) {
  constexpr int64_t length = 37;
  for (const int count : {1, 2, 3, 5, 7, 8, 9, 12, 16, 17, 31, 33, 64, 100, 1024}) {
    for (const int kind : {0, 1, 2}) {  // fp32, bf16, both
      for (const Type out_type : {Type::f32, Type::bf16}) {
        BothTables tables;
        std::vector<Twin> inputs;
        for (int i = 0; i < count; ++i) {
          Floats numbers = data(length, static_cast<uint64_t>(2 * i + 1));
          numbers.front() = -0.0F;  // whose sum is -0 as long as nothing else is added
          inputs.push_back(kind == 0 || (kind == 2 && i % 3 == 0) ? tables.put(numbers)
                                                                  : tables.put(rounded(numbers)));
        }
        const bool in_place = inputs.back().host.type() == out_type;
        const Twin out = in_place ? inputs.back() : tables.space(out_type, length);
        tables.run([&](Side side) {
          Fold call{.inputs = {}, .out = out.of(side), .divisor = count % 2 == 0 ? 3.0F : 1.0F};
          for (const Twin& input : inputs) call.inputs.push_back(input.of(side));
          return call;
        });
        EXPECT_TRUE(out_type == Type::f32 ? same_bits<float>(out) : same_bits<bf16>(out))
            << count << " " << kind;
      }
    }
  }
}

TEST(CudaSquareSum, SaturatesAsTheHostsDoes) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  for (const float one : {1.0F, 0x1p-149F, 0x1p44F, 0x1p45F, 3e38F, inf, std::nanf("")}) {
    for (const int64_t length : {1, 63, 64, 65, 5000}) {
      Floats numbers = data(length, 9);
      numbers.back() = one;
      BothTables tables;
      const Twin grads = tables.put(numbers);
      ExactSum sums[2];
      for (ExactSum& sum : sums) sum.add(0.1);
      for (int times = 0; times < 2; ++times) {
        tables.run([&](Side side) {
          return SquareSum{.grads = grads.of(side), .sum = &sums[side == Side::cuda ? 1 : 0]};
        });
      }
      EXPECT_EQ(sums[0], sums[1]) << one << " " << length;
      EXPECT_EQ(sums[1].saturated(), !(one < 0x1p45F)) << one;
    }
  }
}

TEST(CudaHash, KnowsWhatIsNotFinite) {
  for (const float one : {1.0F, std::numeric_limits<float>::infinity(), std::nanf("")}) {
    Floats numbers = data(5001, 4);
    numbers[4000] = one;
    BothTables tables;
    const Twin x = tables.put(numbers), h = tables.put(rounded(numbers));
    HashSum sums[2];
    for (const Twin& each : {x, h}) {
      tables.run([&](Side side) {
        return HashRun{.x = each.of(side),
                       .kind = HashKind::v,
                       .logical = (int64_t{1} << 32) - 1000,
                       .sum = &sums[side == Side::cuda ? 1 : 0]};
      });
    }
    EXPECT_EQ(to_string(sums[0]), to_string(sums[1]));
    EXPECT_EQ(sums[1].finite, one == 1.0F);
    EXPECT_EQ(sums[0].finite, sums[1].finite);
  }
}

TEST(CudaTable, NamesTheNumberThatFixedPointRefuses) {
  for (const float bad : {0x1p16F, -0x1p16F, std::nanf("")}) {
    Floats numbers = data(20000, 5);
    numbers[16391] = numbers[17000] = bad;
    BothTables tables;
    const Twin from = tables.put(numbers), to = tables.space(Type::i64, 20000);
    std::string said[2];
    for (const Side side : {Side::host, Side::cuda}) {
      try {
        tables.table(side).run(ToFixed{.from = from.of(side), .to = to.of(side), .terms = 8});
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Exit::bits);
        said[side == Side::cuda ? 1 : 0] = error.what();
      }
    }
    EXPECT_NE(said[1].find("element 16391"), std::string::npos) << said[1];
    EXPECT_EQ(said[0], said[1]);
  }
}

// The host hears of it with the next result that it holds, once.
TEST(CudaTable, RefusesTokensOutsideTheVocabulary) {
  for (const int32_t bad : {-1, 5, INT32_MIN, INT32_MAX}) {
    BothTables tables;
    const Twin tokens = tables.put(std::vector<int32_t>{0, 4, bad, 1});
    const Twin table = tables.put(data(15, 1)), positions = tables.put(data(12, 2));
    const Twin x = tables.put(data(20, 3)), rows = tables.space(Type::f32, 4),
               one = tables.space(Type::f32, 1);
    const View few = x.cuda.part({{0}, {12}});
    const std::vector<Call> calls{EmbeddingForward{.tokens = tokens.cuda,
                                                   .token = table.cuda,
                                                   .position = positions.cuda,
                                                   .x = few,
                                                   .rows = 4,
                                                   .sequence = 4,
                                                   .width = 3},
                                  EmbeddingBackward{.tokens = tokens.cuda,
                                                    .dx = few,
                                                    .dtoken = table.cuda,
                                                    .dposition = positions.cuda,
                                                    .rows = 4,
                                                    .sequence = 4,
                                                    .width = 3},
                                  CrossEntropyForward{.logits = x.cuda,
                                                      .targets = tokens.cuda,
                                                      .row_max = rows.cuda,
                                                      .row_sum = rows.cuda,
                                                      .row_loss = rows.cuda,
                                                      .loss = one.cuda,
                                                      .rows = 4,
                                                      .vocabulary = 5},
                                  CrossEntropyBackward{.logits = x.cuda,
                                                       .targets = tokens.cuda,
                                                       .row_max = rows.cuda,
                                                       .row_sum = rows.cuda,
                                                       .rows = 4,
                                                       .vocabulary = 5}};
    Table& cuda = tables.table(Side::cuda);
    ExactSum sum;
    const SquareSum result{.grads = x.cuda, .sum = &sum};
    for (const Call& call : calls) {
      EXPECT_NO_THROW(cuda.run(result));
      EXPECT_NO_THROW(cuda.run(call));
      try {
        cuda.run(result);
        ADD_FAILURE() << name_of(call) << " took " << bad;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Exit::internal);
        EXPECT_NE(std::string(error.what()).find("a token or target lies in its vocabulary"),
                  std::string::npos)
            << error.what();
      }
    }
  }
}

TEST(CudaTable, RefusesWhatItWasNotMadeFor) {
  BothTables tables(8);
  const Twin qkv = tables.put(data(27, 1)), rows = tables.put(data(9, 2));
  EXPECT_THROW(tables.table(Side::cuda)
                   .run(AttentionBackward{.qkv = qkv.cuda,
                                          .row_max = rows.cuda,
                                          .row_sum = rows.cuda,
                                          .dout = rows.cuda,
                                          .dqkv = qkv.cuda,
                                          .batch = 1,
                                          .sequence = 9,
                                          .width = 1,
                                          .heads = 1}),
               Error);
  EXPECT_THROW(tables.table(Side::cuda).run(Add{.a = rows.cuda, .b = qkv.cuda, .y = rows.cuda}), Error);
}

TEST(CudaTable, HoldsTheWorkspaceOfItsClosedForm) {
  EXPECT_EQ(cuda_workspace({}).n, 128);
  EXPECT_EQ(cuda_workspace({.max_attention_rows = 1000}).n, 128 + 4000);
}

TEST(CudaCheck, ThrowsCudasOwnWords) {
  EXPECT_NO_THROW(check(cudaSuccess));
  for (const auto& [status, code, words] :
       {std::tuple(cudaErrorInvalidValue, Exit::cuda, "invalid argument"),
        {cudaErrorMemoryAllocation, Exit::unavailable, "out of memory"}}) {
    try {
      check(status);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("cuda_cases_test.cpp"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace zp::kernels
