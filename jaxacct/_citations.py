"""Addresses of the papers that theorems are cited from, and links to them in prose."""

import re
from collections.abc import Callable

_ARXIV = "https://arxiv.org/abs/"
_DOI = "https://doi.org/"

PAPERS = {
    "Agarwal, Kairouz & Liu 2021": _ARXIV + "2110.04995",
    "Balle & Wang 2018": _ARXIV + "1805.06530",
    "Balle, Barthe & Gaboardi 2018": _ARXIV + "1807.01647",
    "Balle, Bell, Gascon & Nissim 2019": _ARXIV + "1903.02837",
    "Bun & Steinke 2016": _ARXIV + "1605.02065",
    "Cambanis, Simons & Stout 1976": _DOI + "10.1007/BF00532695",
    "Canonne, Kamath & Steinke 2020": _ARXIV + "2004.00010",
    "Cesar & Rogers 2021": _ARXIV + "2004.07223",
    "Chen et al. 2024": _ARXIV + "2401.04306",
    "Choquette-Choo et al. 2024": _ARXIV + "2310.15526",
    "Choquette-Choo, Ganesh, Haque, Steinke & Thakurta 2024": _ARXIV + "2410.06266",
    "Chua et al. 2024, How Private are DP-SGD Implementations?": _ARXIV + "2403.17673",
    "Chua et al. 2024, Scalable DP-SGD": _ARXIV + "2411.04205",
    "Chua et al. 2024, Balls-and-Bins Sampling for DP-SGD": _ARXIV + "2412.16802",
    "Ding et al. 2021": _ARXIV + "2105.07260",
    "Dong, Chen & Ozgur 2025": _ARXIV + "2503.03043",
    "Dong, Durfee & Rogers 2020": _ARXIV + "1909.13830",
    "Dong, Roth & Su 2022": _ARXIV + "1905.02383",
    "Doroshenko et al. 2022": _ARXIV + "2207.04380",
    "Dwork & Roth 2014": _DOI + "10.1561/0400000042",
    "Feldman & Shenfeld 2025": _ARXIV + "2502.08202",
    "Feldman & Zrnic 2021": _ARXIV + "2008.11193",
    "Feldman, McMillan & Talwar 2021": _ARXIV + "2012.12803",
    "Ganesh 2024": _ARXIV + "2401.10294",
    "Girgis et al. 2021": _ARXIV + "2105.05180",
    "Girgis, Data, Diggavi, Suresh & Kairouz 2021": _ARXIV + "2105.05180",
    "Kahane 1986": _DOI + "10.1007/BF02772698",
    "Kairouz, Oh & Viswanath 2015": _ARXIV + "1311.0776",
    "Koskela et al. 2020": _ARXIV + "1906.03049",
    "Koskela, Redberg & Wang 2024": _ARXIV + "2402.06701",
    "Lecuyer 2021": _ARXIV + "2103.01379",
    "Lyu, Su & Li 2017": _ARXIV + "1603.01699",
    "Liew, Hasegawa & Takahashi 2022": _ARXIV + "2206.03151",
    "Liu & Talwar 2019": _ARXIV + "1811.07971",
    "McKenna & Sheldon 2020": _ARXIV + "2010.12603",
    "Meiser & Mohammadi 2018": "https://eprint.iacr.org/2017/1034",
    "Mironov 2017": _ARXIV + "1702.07476",
    "Mironov, Talwar & Zhang 2019": _ARXIV + "1908.10530",
    "Neyman & Pearson 1933": _DOI + "10.1098/rsta.1933.0009",
    "Papernot & Steinke 2022": _ARXIV + "2110.03620",
    "Su, Cheng & Wang 2025": _ARXIV + "2504.07414",
    "Takagi & Liew 2026": _ARXIV + "2601.19154",
    "Vadhan 2017": _DOI + "10.1007/978-3-319-57048-8_7",
    "Zhu & Wang 2020": "https://papers.nips.cc/paper/2020/hash/e9bf14a419d77534105016f5ec122d62-Abstract.html",
    "Zhu, Dong & Wang 2022": _ARXIV + "2106.08567",
}
"""Keyed by the authors and year that a theorem is cited with, and by more where these have several papers."""

_CITED = re.compile(  # also across line breaks
    "|".join(r"\s+".join(map(re.escape, name.split())) for name in sorted(PAPERS, key=len, reverse=True))
)


def linked(text: str, link: Callable[[str, str], str]) -> str:
    """`text` with every cited paper replaced by ``link(name, address)``."""
    return _CITED.sub(lambda found: link(found[0], PAPERS[" ".join(found[0].split())]), text)


def linked_markdown(text: str) -> str:
    """`text` with links to papers, in Markdown."""
    return linked(text, lambda name, address: f"[{name}]({address})")
