// The kernels of one ISA, an overload per call. Each is defined in one *.isa.cpp; functions.isa.cpp puts them
// into the table, which has checked the arguments (kernels/arguments.hpp); results keep the contract in
// kernels/kernels.hpp. Such files keep to plain loops and internal or ISA-named functions: a standard
// template that is not inlined would be shared with files compiled for every processor.
#pragma once

#include "kernels/host/functions.hpp"
#include "kernels/host/simd.hpp"

namespace zp::kernels::ZP_ISA {

void run(HostContext& context, const Gemm& call);
void run(HostContext& context, const AddBias& call);
void run(HostContext& context, const BiasBackward& call);
void run(HostContext& context, const LayerNormForward& call);
void run(HostContext& context, const LayerNormBackward& call);
void run(HostContext& context, const AttentionForward& call);
void run(HostContext& context, const AttentionBackward& call);
void run(HostContext& context, const GeluForward& call);
void run(HostContext& context, const GeluBackward& call);
void run(HostContext& context, const Add& call);
void run(HostContext& context, const EmbeddingForward& call);
void run(HostContext& context, const EmbeddingBackward& call);
void run(HostContext& context, const CrossEntropyForward& call);
void run(HostContext& context, const CrossEntropyBackward& call);
void run(HostContext& context, const Cast& call);
void run(HostContext& context, const Fold& call);
void run(HostContext& context, const ToFixed& call);
// Fold of int64, which is fixed point.
void run_integer_fold(HostContext& context, const Fold& call);
void run(HostContext& context, const AdamW& call);
void run(HostContext& context, const Sgd& call);
void run(HostContext& context, const SquareSum& call);
void run(HostContext& context, const HashRun& call);
void run_replica_hash(HostContext& context, const HashRun& call);
void run(HostContext& context, const Initialize& call);
void run(HostContext& context, const SyntheticGradient& call);

}  // namespace zp::kernels::ZP_ISA
