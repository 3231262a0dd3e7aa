#!/usr/bin/env python3
"""Times the training step of the model `small` on PyTorch or DeepSpeed: CPU ranks that talk through gloo, fp32, AdamW.

    peer_step.py WAY [--ranks 4] [--steps 6] [--batch 4] [--seq 256] [--threads 1]

WAY: single (one process, the micro-batches of all ranks one after another), ddp, fsdp2, ds3 (DeepSpeed stage 3).
Prints one line of JSON: what ran, and the seconds of every step after a first one that is not counted.
"""
import argparse
import json
import os
import socket
import sys
import time

import torch
import torch.distributed
import torch.multiprocessing
from torch import nn

LAYERS, WIDTH, HEADS, VOCABULARY, POSITIONS = 6, 384, 6, 256, 256
ADAMW = dict(lr=3e-4, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)


class Layer(nn.Module):
    """One block of GPT-2: attention and a perceptron, each behind a norm and beside a residual path."""

    def __init__(self):
        super().__init__()
        self.before_attention = nn.LayerNorm(WIDTH)
        self.to_qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.from_heads = nn.Linear(WIDTH, WIDTH)
        self.perceptron = nn.Sequential(
            nn.LayerNorm(WIDTH),
            nn.Linear(WIDTH, 4 * WIDTH),
            nn.GELU(approximate="tanh"),
            nn.Linear(4 * WIDTH, WIDTH),
        )

    def forward(self, x):
        batch, tokens, _ = x.shape
        qkv = self.to_qkv(self.before_attention(x)).view(batch, tokens, 3, HEADS, WIDTH // HEADS)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.from_heads(mixed.transpose(1, 2).reshape(batch, tokens, WIDTH))
        return x + self.perceptron(x)


class Model(nn.Module):
    """The model `small`: learned positions, an output layer of its own."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(POSITIONS, WIDTH)
        self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])
        self.last_norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, text):
        x = self.tokens(text[:, :-1]) + self.positions.weight[: text.shape[1] - 1]
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.last_norm(x))
        return nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())


def plain_step(model, optimizer, texts):
    optimizer.zero_grad(set_to_none=True)
    for text in texts:
        (model(text) / len(texts)).backward()
    optimizer.step()


def make_step(way, batch, ranks):
    """A function that takes micro-batches and makes one step, and the number of parameters."""
    torch.manual_seed(1)
    model = Model()
    parameters = sum(p.numel() for p in model.parameters())
    if way == "ds3":
        import deepspeed

        config = {
            "train_micro_batch_size_per_gpu": batch,
            "train_batch_size": batch * ranks,
            "steps_per_print": 1_000_000,
            "zero_allow_untested_optimizer": True,
            "zero_optimization": {"stage": 3},
        }
        optimizer = torch.optim.AdamW(model.parameters(), **ADAMW)
        engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)

        def engine_step(texts):
            engine.backward(engine(texts[0]))
            engine.step()

        return engine_step, parameters
    if way == "ddp":
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    elif way == "fsdp2":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (ranks,))
        for layer in model.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), **ADAMW)
    return lambda texts: plain_step(model, optimizer, texts), parameters


def join(way, rank, ranks, port):
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
    )
    if way == "ds3":
        os.environ["DS_ACCELERATOR"] = "cpu"
        import deepspeed

        deepspeed.init_distributed(dist_backend="gloo", verbose=False)
    elif ranks > 1:
        torch.distributed.init_process_group("gloo")


def run_rank(rank, ranks, args, port, answer):
    torch.set_num_threads(args.threads)
    join(args.way, rank, ranks, port)
    meet = torch.distributed.barrier if ranks > 1 else (lambda: None)
    step, parameters = make_step(args.way, args.batch, ranks)
    each = args.ranks // ranks  # micro-batches of this process
    seconds = []
    for number in range(args.steps + 1):
        random = torch.Generator().manual_seed(1000 * number + rank)
        texts = [torch.randint(VOCABULARY, (args.batch, args.seq + 1), generator=random) for _ in range(each)]
        meet()
        begin = time.perf_counter()
        step(texts)
        meet()
        seconds.append(time.perf_counter() - begin)
    if rank == 0:
        answer.put({"parameters": parameters, "step_times_s": seconds[1:]})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("way", choices=["single", "ddp", "fsdp2", "ds3"])
    for name, default in (("ranks", 4), ("steps", 6), ("batch", 4), ("seq", 256), ("threads", 1)):
        parser.add_argument("--" + name, type=int, default=default)
    args = parser.parse_args()
    ranks = 1 if args.way == "single" else args.ranks
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = torch.multiprocessing.get_context("spawn")
    answer = context.Queue()
    processes = [context.Process(target=run_rank, args=(r, ranks, args, port, answer)) for r in range(ranks)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        sys.exit(1)
    print(json.dumps({**vars(args), "torch": torch.__version__, **answer.get()}))


if __name__ == "__main__":
    main()
