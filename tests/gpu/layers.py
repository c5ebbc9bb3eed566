"""Widths of public models: what products and attention are drawn from.

Data alone; drawing.py decides how often each is taken. Each row holds fields of the model's public config.json (hidden_size, intermediate_size,
num_attention_heads, num_key_value_heads, head_dim, vocab_size), which lies in the repository of that name at huggingface.co. A mixture of
experts stands with one expert's width.
"""
# repository: hidden, intermediate, heads, kv heads, head dim, vocabulary
MODELS = {
    "meta-llama/Llama-2-7b": (4096, 11008, 32, 32, 128, 32000),
    "meta-llama/Llama-2-13b": (5120, 13824, 40, 40, 128, 32000),
    "meta-llama/Llama-3.2-1B": (2048, 8192, 32, 8, 64, 128256),
    "meta-llama/Llama-3.2-3B": (3072, 8192, 24, 8, 128, 128256),
    "meta-llama/Llama-3.1-8B": (4096, 14336, 32, 8, 128, 128256),
    "meta-llama/Llama-3.1-70B": (8192, 28672, 64, 8, 128, 128256),
    "meta-llama/Llama-3.1-405B": (16384, 53248, 128, 8, 128, 128256),
    "Qwen/Qwen2.5-0.5B": (896, 4864, 14, 2, 64, 151936),
    "Qwen/Qwen2.5-1.5B": (1536, 8960, 12, 2, 128, 151936),
    "Qwen/Qwen2.5-7B": (3584, 18944, 28, 4, 128, 152064),
    "Qwen/Qwen2.5-32B": (5120, 27648, 40, 8, 128, 152064),
    "Qwen/Qwen2.5-72B": (8192, 29568, 64, 8, 128, 152064),
    "Qwen/Qwen3-0.6B": (1024, 3072, 16, 8, 128, 151936),
    "Qwen/Qwen3-8B": (4096, 12288, 32, 8, 128, 151936),
    "Qwen/Qwen3-32B": (5120, 25600, 64, 8, 128, 151936),
    "Qwen/Qwen3-30B-A3B": (2048, 768, 32, 4, 128, 151936),
    "Qwen/Qwen3-235B-A22B": (4096, 1536, 64, 4, 128, 151936),
    "mistralai/Mistral-7B-v0.3": (4096, 14336, 32, 8, 128, 32768),
    "mistralai/Mistral-Nemo-Base-2407": (5120, 14336, 32, 8, 128, 131072),
    "mistralai/Mistral-Small-24B-Base-2501": (5120, 32768, 32, 8, 128, 131072),
    "mistralai/Mixtral-8x22B-v0.1": (6144, 16384, 48, 8, 128, 32000),
    "google/gemma-2-9b": (3584, 14336, 16, 8, 256, 256000),
    "google/gemma-2-27b": (4608, 36864, 32, 16, 128, 256000),
    "google/gemma-3-4b-pt": (2560, 10240, 8, 4, 256, 262208),
    "google/gemma-3-27b-pt": (5376, 21504, 32, 16, 128, 262208),
    "openai/gpt-oss-120b": (2880, 2880, 64, 8, 64, 201088),
    "microsoft/phi-4": (5120, 17920, 40, 10, 128, 100352),
    "openai-community/gpt2-xl": (1600, 6400, 25, 25, 64, 50257),
    "google-bert/bert-large-uncased": (1024, 4096, 16, 16, 64, 30522),
    "openai/whisper-large-v3": (1280, 5120, 20, 20, 64, 51866),
}
UNGATED = {"openai-community/gpt2-xl", "google-bert/bert-large-uncased", "openai/whisper-large-v3"}  # one product up, where others have gate and up in one

# deepseek-ai/DeepSeek-V3: its attention goes through ranks (q_lora_rank 1536, kv_lora_rank 512, qk_rope_head_dim 64, 128 heads of 192 and 128).
# layer: N, K, which of them is cut when several GPUs share the layer
DEEPSEEK = {
    "qkv down": (2112, 7168, ""), "q up": (24576, 1536, "n"), "kv up": (32768, 512, "n"), "attention output": (7168, 16384, "k"),
    "gate and up": (36864, 7168, "n"), "down": (7168, 18432, "k"), "expert gate and up": (4096, 7168, ""), "expert down": (7168, 2048, ""),
    "vocabulary": (129280, 7168, "n"),
}
CUTS = [1, 1, 2, 4, 8]  # GPUs that share a layer; one as likely as two and four together

# Gated delta rule, heads of 128: linear_num_key_heads and linear_num_value_heads of Qwen/Qwen3-Next-80B-A3B-Instruct; wider ones of the same form.
DELTA_HEADS = {"Qwen3-Next-80B-A3B": (16, 32), "three value heads a key head": (16, 48), "four value heads a key head": (16, 64)}


def layers_of(model):
    """layer -> N, K, cut."""
    hidden, wide, heads, kv_heads, dim, vocabulary = MODELS[model]
    ungated = model in UNGATED
    return {"qkv": ((heads + 2 * kv_heads) * dim, hidden, "n"), "attention output": (hidden, heads * dim, "k"),
            "up" if ungated else "gate and up": (wide if ungated else 2 * wide, hidden, "n"), "down": (hidden, wide, "k"),
            "vocabulary": (vocabulary, hidden, "n")}


def families():
    """(model, layer, N, K, cut) of every layer."""
    found = [(model, layer, *sizes) for model in MODELS for layer, sizes in layers_of(model).items()]
    return found + [("deepseek-ai/DeepSeek-V3", layer, *sizes) for layer, sizes in DEEPSEEK.items()]


def attentions(dims=(64, 128)):
    """(model, heads, kv heads, head dim) of every model with such a head dim."""
    return [(model, heads, kv_heads, dim) for model, (_, _, heads, kv_heads, dim, _) in MODELS.items() if dim in dims]
