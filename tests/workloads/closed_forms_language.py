"""Multiply-adds of one sample of the language and speech workloads, from their published sizes.

Like torch's counter these have convolutions and matrix products only, and leave out attention where torch runs it as
a single operator.
"""

from __future__ import annotations

from multiply_adds import SHORTER, chain


def transformer_layer(width: int, inner: int, kv_width: int | None = None, matrices: int = 2) -> int:
    """One token: query and output, key and value, and two matrices (three if gated) of `inner` columns."""
    kv_width = width if kv_width is None else kv_width
    return 2 * width**2 + 2 * width * kv_width + matrices * width * inner


def recurrent(gates: int, inputs: int, hidden: int) -> int:
    """One step of a cell: 3 gates for a GRU, 4 for an LSTM, 1 without any."""
    return gates * hidden * (inputs + hidden)


def lstm(inputs: int, hidden: int) -> int:
    return recurrent(4, inputs, hidden)


def gru(inputs: int, hidden: int) -> int:
    return recurrent(3, inputs, hidden)


def gptj(tokens: int) -> int:
    """28 layers of 4096 and 4 x 4096, scores and weighted values made explicitly; one row of 50,400 words."""
    return 28 * tokens * (transformer_layer(4096, 16384) + 2 * tokens * 4096) + 4096 * 50_400


def llama2_70b(tokens: int) -> int:
    """80 gated layers of 8192 and 28,672, 8 key-value heads of 128; one row of 32,000 words."""
    return 80 * tokens * transformer_layer(8192, 28_672, kv_width=8 * 128, matrices=3) + 8192 * 32_000


def llama3_8b(tokens: int) -> int:
    """32 gated layers of 4096 and 14,336, 8 key-value heads of 128; one row of 128,256 words."""
    return 32 * tokens * transformer_layer(4096, 14_336, kv_width=8 * 128, matrices=3) + 4096 * 128_256


def mixtral() -> int:
    """One token in 32 layers of 4096, a router of 8 and two gated experts of 14,336; 32,000 words."""
    layer = transformer_layer(4096, 14_336, kv_width=8 * 128, matrices=2 * 3) + 4096 * 8
    return 32 * layer + 4096 * 32_000


def mamba(tokens: int) -> int:
    """24 layers of 768, twice that inside, state 16, step sizes from 48 (768 / 16); 50,280 words.

    The convolution over 4 tokens makes 3 outputs too many, which are cut off. Of the scan only the readout
    is a matrix product.
    """
    width, inner, state, rank = 768, 2 * 768, 16, 48
    layer = chain(width, 2 * inner) + chain(inner, rank + 2 * state) + chain(rank, inner) + chain(inner, width)
    readout = inner * state
    return 24 * (tokens * (layer + readout) + (tokens + 3) * 4 * inner) + tokens * width * 50_280


def bert_large(tokens: int) -> int:
    """24 layers of 1024 and 4 x 1024, then an answer's start and end."""
    return tokens * (24 * transformer_layer(1024, 4096) + 1024 * 2)


def transformer_base(source: int, target: int) -> int:
    """6 + 6 layers of 512 and 4 x 512; a decoder layer has the four matrices of attention once more."""
    layer, width = transformer_layer(512, 2048), 512
    memory = 2 * width**2
    return 6 * source * (layer + memory) + target * (6 * (layer + 2 * width**2) + width * 37_000)


def additive_attention(queries: int, memory: int, query_width: int, memory_width: int, width: int) -> int:
    """Bahdanau's: both sides to `width`, a score for each pair, the weighted memory."""
    pairs = queries * memory * (width + memory_width)
    return queries * query_width * width + memory * memory_width * width + pairs


def gnmt(source: int, target: int) -> int:
    """Attention of 1024 and 32,320 words, between and after 4 + 4 LSTM layers."""
    return additive_attention(target, source, 1024, 1024, 1024) + target * 1024 * 32_320


def gnmt_lstm(source: int, target: int) -> int:
    """Layers of 1024; the first encoder layer runs both ways, the decoder's last three read a context too."""
    encoder = 2 * lstm(1024, 1024) + lstm(2048, 1024) + 2 * lstm(1024, 1024)
    return source * encoder + target * (lstm(1024, 1024) + 3 * lstm(2048, 1024))


def seq2seq(source: int, target: int) -> int:
    """3 decoder cells of 256; word and context are merged before, output and context after; 40,000 words.

    The query is the state of all cells, 6 x 256.
    """
    step = chain(2 * 256, 256) + 3 * lstm(256, 256) + chain(2 * 256, 256, 40_000)
    return additive_attention(target, source, 6 * 256, 256, 256) + target * step


def summarization(source: int, target: int) -> int:
    """Embeddings of 200, a GRU of 400 both ways and one with attention; 2,000 candidate words."""
    embedding, hidden, memory = 200, 400, 2 * 400
    step = gru(embedding + memory, hidden) + chain(embedding + memory + hidden, hidden, 2000)
    attention = additive_attention(target, source, hidden, memory, hidden)
    return 2 * source * gru(embedding, hidden) + hidden**2 + attention + target * step


def aoa_reader(passage: int, query: int) -> int:
    """Embeddings of 384, one GRU of 256 both ways; every pair of words, its two attentions, 10 candidates."""
    pairs = passage * query * 2 * 256
    return 2 * (passage + query) * gru(384, 256) + pairs + passage * query + 10 * passage


def bidaf(context: int, question: int) -> int:
    """Convolution of 5 x 8 to 100 over 16 letters, two highway layers of 200; words of 2d = 200 after LSTMs."""
    both = 2 * 100
    word = (16 - 5 + 1) * 5 * 8 * 100 + 2 * 2 * 200**2
    similarity = (context + question) * both + context * question * both
    to_question, to_context, answer_start = context * question * both, context * both, context * both
    answer = 2 * context * 5 * both
    return (context + question) * word + similarity + to_question + to_context + answer_start + answer


def bidaf_lstm(context: int, question: int) -> int:
    """All both ways and of d = 100: for both texts, two over the 8d of the flow, one over 14d for the end."""
    modeling = lstm(800, 100) + lstm(200, 100)
    return 2 * ((context + question) * lstm(200, 100) + context * (modeling + lstm(1400, 100)))


def enas(tokens: int) -> int:
    """A cell of 12 nodes of 720 (candidate and gate), 10,000 words; the controller's LSTM of 100.

    For each node it runs twice, makes a key and picks one of 4 activations; from the second node on a query
    is compared with the nodes before.
    """
    cell = chain(2 * 720, 2 * 720) + 11 * chain(720, 2 * 720)
    controller = 12 * (2 * lstm(100, 100) + 100**2 + 100 * 4) + 11 * 100**2 + sum(range(12)) * 100
    return tokens * (cell + 720 * 10_000) + controller


def deepspeech1(frames: int) -> int:
    """19 frames of 26 coefficients, then 2048: three layers, a recurrent one both ways, one; 29 letters."""
    return frames * (chain(19 * 26, 2048, 2048, 2048) + 2 * recurrent(1, 2048, 2048) + chain(2048, 2048, 29))


def rnnt(steps: int, letters: int) -> int:
    """Joint network of 512 for audio of 1024, text of 320 (and its start): 29 letters for each pair."""
    said = letters + 1
    return steps * 1024 * 512 + said * 320 * 512 + steps * said * 512 * 29


def rnnt_lstm(steps: int, letters: int) -> int:
    """Of 1024: two at the double rate over 3 x 80 bands, three over stacked pairs; two of 320 for the text."""
    before = 2 * steps * (lstm(240, 1024) + lstm(1024, 1024))
    after = steps * (lstm(2048, 1024) + 2 * lstm(1024, 1024))
    return before + after + (letters + 1) * 2 * lstm(320, 320)


def wav2vec2_base(samples: int) -> int:
    """Seven convolutions of 512, 12 layers of 768 and 4 x 768, 32 letters.

    The convolution of positions (128 wide, 16 groups) makes one output too many, which is cut off.
    """
    total, channels, length = 0, 1, samples
    for kernel, stride in ((10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2)):
        length = (length - kernel) // stride + 1
        total += length * kernel * channels * 512
        channels = 512
    positions = (length + 1) * 128 * 768 * 768 // 16
    return total + positions + length * (512 * 768 + 12 * transformer_layer(768, 3072) + 768 * 32)


def whisper_base(frames: int, tokens: int) -> int:
    """Two convolutions over 3 frames, the second halves their number; 6 + 6 layers of 512; 51,865 tokens."""
    width, steps, layer = 512, frames // 2, transformer_layer(512, 2048)
    convolutions = frames * 3 * 80 * width + steps * 3 * width**2
    memory = 2 * width**2
    decoder = tokens * (6 * (layer + 2 * width**2) + width * 51_865)
    return convolutions + 6 * steps * (layer + memory) + decoder


CLOSED_FORMS: dict[str, int] = {
    "llm/gptj": gptj(128),
    "llm/llama2_70b_prefill": llama2_70b(128),
    "llm/llama3_8b_decode": llama3_8b(1),
    "llm/llama3_8b_prefill": llama3_8b(128),
    "llm/mamba": mamba(SHORTER["llm/mamba"]["sequence"]),
    "llm/mixtral": mixtral(),
    "nlp/aoa_reader": aoa_reader(SHORTER["nlp/aoa_reader"]["sequence"], 31),
    "nlp/bert_large": bert_large(128),
    "nlp/bidaf": bidaf(SHORTER["nlp/bidaf"]["sequence"], 30) + bidaf_lstm(SHORTER["nlp/bidaf"]["sequence"], 30),
    "nlp/enas": enas(7),
    "nlp/gnmt": gnmt(10, 10) + gnmt_lstm(10, 10),
    "nlp/memn2n": 3 * 2 * 50 * 50 + 50 * 177,  # three hops over 50 sentences of width 50; 177 words
    "nlp/rnn_lm": 35 * (2 * lstm(650, 650) + 650 * 33_278),  # two layers of 650, the words
    "nlp/sentiment": 230 * (3 + 4) * 1024**2 + 2 * 1024 * 2,  # over 3 and 4 of 230 words, two classes
    "nlp/seq2seq": seq2seq(8, 10) + 8 * 3 * lstm(256, 256),
    "nlp/summarization": summarization(32, 8),
    "nlp/transformer_base": transformer_base(50, 50),
    "speech/deepspeech1": deepspeech1(100),
    "speech/rnnt": rnnt(10, 8) + rnnt_lstm(10, 8),
    "speech/wav2vec2_base": wav2vec2_base(2 * 16_000),
    "speech/whisper_base": whisper_base(3000, 64),
}
