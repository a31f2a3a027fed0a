"""GPT-2 (124 million weights) on one GPU: training steps compared with two peers, generation with Hugging Face.

python benchmarks/gpt2_gpu.py         writes results/gpt2_gpu.json; needs a GPU and `transformers`

training     16 texts of 1,024 tokens, bf16, fused AdamW, clipping; peers compiled, and in one CUDA graph as well. They
             are Hugging Face's GPT-2 and plain PyTorch: blocks of torch's layers with torch's fused attention.
generation   one prompt of 32 tokens is continued by 128, greedily, in bf16, with the same weights on both sides; in
             float32 both must generate the same tokens.
"""

from __future__ import annotations

import copy
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from train_gpu import add_ratios, measure, peer, run_in_turns, seq2see_steps

from seq2see.acceleration.inference import optimize_for_inference
from seq2see.core.batch import Batch, Sequences
from seq2see.core.devices import describe_machine
from seq2see.core.files import write_json
from seq2see.data.tokenizers.tokenizer import WordLevel, train_tokenizer
from seq2see.decoding.engine import Decoding, Limits, decode
from seq2see.decoding.samplers import GreedySampler
from seq2see.interop.hugging_face_causal import write_causal
from seq2see.models.build import fresh_model
from seq2see.models.language_model import LanguageModel
from seq2see.models.settings import ModelSettings, TextTarget, TokenEmbeddingSettings
from seq2see.models.transformer import TransformerSettings
from seq2see.tasks.model_folder import ModelConfig, StoredModel, Tokenizers
from seq2see.tasks.task import pretrained_task
from seq2see.training.objectives import NextToken

RESULTS = Path(__file__).parent / "results" / "gpt2_gpu.json"
ROWS, TIMES, WIDTH, DEPTH, HEADS, VOCABULARY = 16, 1024, 768, 12, 12, 50_304
PROMPT, NEW, ROUNDS = 32, 128, 3


def settings() -> ModelSettings:
    """GPT-2's architecture: learned positions, unscaled embeddings, pre-norm, GELU, a tied head."""
    stack = TransformerSettings(
        width=WIDTH, depth=DEPTH, heads=HEADS, dropout=0.0, norm_order="pre", activation="gelu-tanh"
    )
    tokens = TokenEmbeddingSettings(positions="learned", max_positions=TIMES, scale=False)
    return ModelSettings(decoder=stack, target=TextTarget(tokenizer=WordLevel(), embedding=tokens, max_tokens=TIMES))


def fresh() -> LanguageModel:
    """seq2see's model with random weights."""
    return fresh_model(settings(), (VOCABULARY, VOCABULARY), "xavier", seed=1)


# --- training ---


class Block(nn.Module):
    """One block in plain PyTorch: a fused qkv projection, torch's fused attention, and a feed-forward layer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.output = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fc1, self.fc2 = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, vectors: Tensor) -> Tensor:
        """Causal self-attention, then the feed-forward layer."""
        qkv = self.qkv(self.norm1(vectors)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(*qkv, is_causal=True)
        vectors = vectors + self.output(attended.transpose(1, 2).flatten(2))
        return vectors + self.fc2(functional.gelu(self.fc1(self.norm2(vectors)), approximate="tanh"))


class PlainGPT2(nn.Module):
    """The whole model in plain PyTorch, with a tied head."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(TIMES, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(DEPTH)))
        self.final_norm = nn.LayerNorm(WIDTH)

    def loss(self, batch: Batch) -> Tensor:
        """Mean cross-entropy of the next tokens."""
        hidden = self.final_norm(self.blocks(self.table(batch.target.values) + self.positions.weight))
        return functional.cross_entropy((hidden @ self.table.weight.T).flatten(0, 1), batch.labels.flatten())


class HuggingFace(nn.Module):
    """Hugging Face's GPT-2."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import GPT2Config, GPT2LMHeadModel

        shape = {"n_embd": WIDTH, "n_layer": DEPTH, "n_head": HEADS, "n_positions": TIMES, "vocab_size": VOCABULARY}
        self.model = GPT2LMHeadModel(GPT2Config(**shape, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0))

    def loss(self, batch: Batch) -> Tensor:
        """Mean cross-entropy of the next tokens; the labels are shifted here, as for the other models."""
        logits = self.model(input_ids=batch.target.values, use_cache=False).logits
        return functional.cross_entropy(logits.flatten(0, 1), batch.labels.flatten())


PEERS = {"Hugging Face GPT-2": HuggingFace, "plain PyTorch": PlainGPT2}


def texts() -> Batch:
    """Random tokens, without padding."""
    rng = torch.Generator().manual_seed(1)
    ids = torch.randint(4, VOCABULARY, (ROWS, TIMES + 1), generator=rng)
    inputs = Sequences(ids[:, :-1].contiguous(), torch.full((ROWS,), TIMES))
    return Batch(None, inputs, ids[:, 1:].contiguous(), torch.arange(ROWS)).to("cuda")


def training() -> list[dict[str, Any]]:
    """All rows of training."""
    rows = run_in_turns([(__file__, name) for name in (*PEERS, "seq2see")])
    add_ratios(rows)
    return rows


# --- generation ---


def generation() -> list[dict[str, Any]]:
    """Tokens per second of one prompt, and whether both generate the same tokens."""
    from transformers import AutoModelForCausalLM

    words = train_tokenizer(WordLevel(), [" ".join(f"w{number}" for number in range(VOCABULARY - 4))])
    module = fresh().eval()
    config = ModelConfig(
        task=pretrained_task(settings()), name="random", step=0, model=settings(), decoding=Decoding(max_new_tokens=NEW)
    )
    prompt = torch.randint(4, VOCABULARY, (1, PROMPT), generator=torch.Generator().manual_seed(2)).cuda()
    input_ids = torch.cat([torch.ones_like(prompt[:, :1]), prompt], dim=1)  # <bos> is 1 on both sides
    with tempfile.TemporaryDirectory() as folder:
        write_causal(StoredModel(config, module, Tokenizers(words, words)), Path(folder) / "hf")
        peers = {
            dtype: AutoModelForCausalLM.from_pretrained(Path(folder) / "hf", dtype=dtype).cuda().eval()
            for dtype in (torch.float32, torch.bfloat16)
        }
    optimized = {torch.float32: optimize_for_inference(copy.deepcopy(module).cuda())}
    optimized[torch.bfloat16] = optimize_for_inference(copy.deepcopy(module).cuda(), "bf16")

    def generate_hugging_face(dtype: torch.dtype) -> list[int]:
        with torch.inference_mode():
            tokens = peers[dtype].generate(
                input_ids, max_new_tokens=NEW, do_sample=False, eos_token_id=None, pad_token_id=0
            )
        return tokens[0, input_ids.size(1) :].tolist()

    def generate_seq2see(dtype: torch.dtype) -> list[int]:
        hypotheses = decode(
            optimized[dtype],
            None,
            GreedySampler(),
            Limits(NEW),
            prefix=Sequences(prompt, torch.tensor([PROMPT]).cuda()),
        )
        return list(hypotheses[0][0].tokens[PROMPT:])

    same = generate_hugging_face(torch.float32)[:64] == generate_seq2see(torch.float32)[:64]
    rates = {"Hugging Face generate": _rate(generate_hugging_face), "seq2see": _rate(generate_seq2see)}
    rows = [
        {"benchmark": "generation", "name": name, "mode": "bf16", "value": round(rate)} for name, rate in rates.items()
    ]
    rows[1]["ratio"] = round(rates["seq2see"] / rates["Hugging Face generate"], 2)
    return [*rows, {"benchmark": "generation", "name": "the same first 64 tokens in float32", "value": int(same)}]


def _rate(run: Callable[[torch.dtype], list[int]]) -> float:
    rates = []
    for number in range(ROUNDS):
        torch.cuda.synchronize()
        began = time.perf_counter()
        count = len(run(torch.bfloat16))
        torch.cuda.synchronize()
        if number:  # the first round warms up
            rates.append(count / (time.perf_counter() - began))
    return statistics.median(rates)


if __name__ == "__main__":
    if sys.argv[1:]:
        name = sys.argv[1]
        measure(
            {"benchmark": "training", "name": name},
            peer(PEERS[name]()) if name in PEERS else seq2see_steps(fresh(), NextToken()),
            texts(),
        )
    else:
        rows = generation()
        print(json.dumps(rows), flush=True)
        rows += training()
        about = {"environment": describe_machine(), "command": "python benchmarks/gpt2_gpu.py"}
        write_json(RESULTS, about | {"rows": rows})
