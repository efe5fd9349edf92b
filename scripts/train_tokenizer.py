"""Train the small byte-level BPE tokenizer that varsdoc-nano carries.

    pip install wordfreq && python scripts/train_tokenizer.py src/varsdoc/model/nano/tokenizer.json

It is Qwen's tokenizer in small: the same normaliser, the same splitting rule (so digits stay single), the same special
tokens, 8,192 entries. The merges are learned from the word frequencies of English that the package wordfreq carries
(Apache-2.0; data CC-BY-SA 4.0), each word as it stands inside a line, at its start, and in capitals, because printed
pages have headings. Deterministic: the same wordfreq release gives the same file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

VOCABULARY = 8192
SPECIAL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# Of a million running words, how many stand inside a line, begin one, are capitalised, are set in capitals.
FORMS = (
    (0.70, lambda word: " " + word),
    (0.05, lambda word: word),
    (0.17, lambda word: " " + word.capitalize()),
    (0.05, lambda word: word.capitalize()),
    (0.03, lambda word: " " + word.upper()),
)


def words() -> Iterator[str]:
    from wordfreq import iter_wordlist, word_frequency

    for word in iter_wordlist("en", wordlist="best"):
        if not word.isalpha():
            continue
        # The fourth root of the running frequency would flatten too much, the frequency itself gives merges of the
        # hundred commonest words everything: the 0.75 power of word2vec lies between.
        count = 2e6 * word_frequency(word, "en", wordlist="best") ** 0.75 / 20
        for share, form in FORMS:
            yield from (form(word) for _ in range(round(count * share)))


def main(target: str) -> None:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN_SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(words(), trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    tokenizer.save(target)
    print(f"{target}: {tokenizer.get_vocab_size()} entries")


if __name__ == "__main__":
    main(sys.argv[1])
