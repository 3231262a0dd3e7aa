// GPT-2 architecture without dropout: learned positions, pre-norm blocks of causal attention and a tanh-GELU MLP of
// four times the width, biases on every linear but the head, which is untied. All arithmetic is in the kernels.
//
// [Note: what one micro-batch allocates and calls]
// B sequences of T tokens, R = B·T rows, w width, h heads, L layers, V vocabulary, P positions. Linears are stored
// (out, in). All buffers are acquired when the model is made and held until its end; nothing is acquired in a step.
//
//   activations, fp32                                                                    elements
//     x.0 … x.L         input of each block, and of the head                             L+1 times R·w
//     of each block     norm1 R·w · norm1.mean R · norm1.rstd R · qkv R·3w · row_max R·h · row_sum R·h ·
//                       attention R·w · mid R·w · norm2 R·w · norm2.mean R · norm2.rstd R ·
//                       up R·4w (before GELU) · gelu R·4w                                L times R·(15w + 2h + 4)
//     of the head       norm R·w · mean R · rstd R · logits R·V · row_max R · row_sum R · row_loss R · loss 1
//                                                                                        R·(w + V + 5) + 1
//     gradients         d_stream R·w (of x and mid) · d_narrow R·w · d_wide R·4w         R·6w, shared by all units
//   data, int32         inputs R · targets R                                             2R
//   workspace, fp32     only where the recipe's gradients are not fp32: one buffer into which a kernel writes fp32
//                       gradients that are then cast into the unit's; it must hold both embedding tables, or the
//                       largest linear                                                   max((V + P)·w, 4w·w)
//
// Calls of one micro-batch, in order. A gemm is m x n x k; "from w" reads weights of the recipe's type.
//   embeddings  forward   embedding (R, w)
//   block       forward   layer norm (R, w) · gemm R x 3w x w from w · add bias (R, 3w) · attention (B, T, w, h) ·
//                         gemm R x w x w from w · add bias (R, w) · add R·w · layer norm (R, w) ·
//                         gemm R x 4w x w from w · add bias (R, 4w) · gelu R·4w ·
//                         gemm R x w x 4w from w · add bias (R, w) · add R·w
//   head        forward   layer norm (R, w) · gemm R x V x w from w · cross entropy (R, V)
//   head        backward  cross entropy backward (R, V) · gemm V x w x R · gemm R x w x V from w ·
//                         layer norm backward (R, w)
//   block       backward  bias backward (R, w) · gemm w x 4w x R · gemm R x 4w x w from w · gelu backward R·4w ·
//                         bias backward (R, 4w) · gemm 4w x w x R · gemm R x w x 4w from w ·
//                         layer norm backward (R, w) ·
//                         bias backward (R, w) · gemm w x w x R · gemm R x w x w from w ·
//                         attention backward (B, T, w, h) ·
//                         bias backward (R, 3w) · gemm 3w x w x R · gemm R x w x 3w from w ·
//                         layer norm backward (R, w)
//   embeddings  backward  embedding backward (R, w)
// Where gradients are not fp32, each backward also makes one cast per tensor of the unit, of the tensor's elements
// (embeddings 2, block 12, head 3): P_u elements a unit.
