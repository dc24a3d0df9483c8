"""The sentences of a file that are nearest to a question: an unmodified sentence-transformers under rapt.torch.enable().

    neighbours.py MODEL FILE QUESTION    MODEL: a folder, or a name that sentence-transformers knows

Vectors, scores and the order of neighbours have the same bits on every CPU, for any batch and number of threads.
"""

from __future__ import annotations

import sys
from pathlib import Path

import rapt
import rapt.torch
from sentence_transformers import SentenceTransformer


def main(name: str, file: str, question: str, count: int = 3) -> None:
    rapt.torch.enable(strict=True)
    model = SentenceTransformer(name, device="cpu")
    sentences = [line for line in Path(file).read_text().splitlines() if line.strip()]
    vectors = model.encode(sentences, normalize_embeddings=True)
    of_question = model.encode([question], normalize_embeddings=True)
    scores, places = rapt.top_k(of_question, vectors, min(count, len(sentences)))
    for score, place in zip(scores[0], places[0]):
        print(f"{score:.4f}  {sentences[place]}")
    print(f"hash of the vectors: {rapt.hash(vectors):016x}")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], sys.argv[3])
