"""Reads the shape files of `attn bench`, for the programs that time peers; bench/README.md has the format."""

from dataclasses import dataclass, field

KEYS = {"b", "s", "sq", "h", "d", "dtype", "window", "softcap", "splits", "tokens", "packed", "mask"}


@dataclass
class Case:
    """One line of a shape file at one length."""

    series: str
    b: int
    s: int
    sq: int
    h: int
    h_kv: int
    d: int
    d_v: int
    dtype: str
    causal: bool
    backward: bool
    window: tuple[int, int] = (-1, -1)
    softcap: float = 0.0
    mask: bool = False
    packed: list[int] = field(default_factory=list)  # lengths of sequences that lie one behind another

    @property
    def name(self) -> str:
        return f"{self.series}/{self.s}"

    def pairs(self) -> float:
        """Pairs of a row and a key that it sees, of one head; causal counts half a square, as attn bench does."""
        lengths = [(n, n) for n in self.packed] or [(self.sq, self.s)] * self.b
        return sum(self._pairs_of(*length) for length in lengths)

    def _pairs_of(self, rows: int, keys: int) -> float:
        left, right = self.window
        if left < 0 and right < 0:
            first = max(keys - rows, 0) if self.causal else keys
            return rows * (first + keys) / 2
        right = 0 if self.causal else right
        total = 0
        for row in range(keys - rows, keys):
            low = max(row - left, 0) if left >= 0 else 0
            high = min(row + right, keys - 1) if right >= 0 else keys - 1
            total += max(high - low + 1, 0)
        return total

    def flops(self) -> float:
        return 2.0 * self.pairs() * self.h * (self.d + self.d_v) * (2.5 if self.backward else 1.0)


def _pair(text: str, separator: str) -> tuple[int, int]:
    first, _, second = text.partition(separator)
    return int(first), int(second or first)


def _line_cases(line: str) -> list[Case]:
    words = line.partition("#")[0].split()
    if not words:
        return []
    keys = dict(w.split("=", 1) for w in words[1:] if "=" in w)
    flags = {w for w in words[1:] if "=" not in w}
    if not keys.keys() <= KEYS or not flags <= {"causal", "backward"}:
        raise ValueError(f"{words[0]}: a word that is none of {sorted(KEYS)}, causal, backward")
    h, h_kv = _pair(keys.get("h", "16"), "/")
    d, d_v = _pair(keys.get("d", "64"), "/")
    packed = [int(n) for n in keys["packed"].split(",")] if "packed" in keys else []
    lengths = [sum(packed)] if packed else [int(n) for n in keys["s"].split(",")]
    cases = []
    for s in lengths:
        b = max(int(keys["tokens"]) // s, 1) if "tokens" in keys else int(keys.get("b", "1"))
        cases.append(Case(
            series=words[0], b=b, s=s, sq=int(keys.get("sq", s)), h=h, h_kv=h_kv, d=d, d_v=d_v,
            dtype=keys.get("dtype", "f32"), causal="causal" in flags, backward="backward" in flags,
            window=_pair(keys["window"], ",") if "window" in keys else (-1, -1),
            softcap=float(keys.get("softcap", "0")), mask="mask" in keys, packed=packed,
        ))
    return cases


def read_shapes(path: str) -> list[Case]:
    with open(path, encoding="utf-8") as file:
        return [case for line in file for case in _line_cases(line)]
