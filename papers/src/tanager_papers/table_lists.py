"""The tables that the papers list, by the papers' own names."""

from __future__ import annotations

__all__ = ["BIG", "FRIEDMAN", "PETITJEAN", "ZAIDI"]


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Zaidi et al. (2017), table 3, first column then second.
ZAIDI = _names(
    """
    Poker-hand Covertype Census-Income(KDD) Localization Connect-4Opening Statlog(Shuttle) Adult
    LetterRecognition MAGICGammaTelescope Nursery Sign PenDigits Thyroid Pioneer Mushrooms Musk2
    Satellite OpticalDigits PageBlocksClassification Wall-following Nettalk(Phoneme) Waveform-5000
    Spambase Abalone Hypothyroid(Garavan) Sick-euthyroid King-rook-vs-king-pawn
    Splice-junctionGeneSequences Segment CarEvaluation Volcanoes Yeast ContraceptiveMethodChoice
    German LED Vowel Tic-Tac-ToeEndgame Annealing Vehicle PimaIndiansDiabetes
    BreastCancer(Wisconsin) CreditScreening BalanceScale Syncon Chess Cylinder Musk1 HouseVotes84
    HorseColic Dermatology Ionosphere LiverDisorders(Bupa) PrimaryTumor Haberman’sSurvival
    HeartDisease(Cleveland) Hungarian Audiology New-Thyroid GlassIdentification
    SonarClassification AutoImports WineRecognition Hepatitis TeachingAssistantEvaluation
    IrisClassification Lymphography Echocardiogram PromoterGeneSequences Zoo PostoperativePatient
    LaborNegotiations LungCancer Contact-lenses
    """
)

# Those of more than 10,000 rows, which the paper calls big.
BIG = ZAIDI[:12]

# Petitjean et al. (2018), table 3: the same but for the five named here.
PETITJEAN = tuple(
    name
    for name in ZAIDI
    if name not in ("Poker-hand", "Covertype", "Census-Income(KDD)", "Localization", "Pioneer")
)

# Pernkopf and Bilmes (2008) take the 25 tables of Friedman, Geiger and Goldszmidt
# (1997), Machine Learning 29, table 1. Those that other papers list too, by
# the names above; the rest by the names there. Two of the 25, diabetes and pima,
# are one table.
FRIEDMAN = _names(
    """
    australian BreastCancer(Wisconsin) King-rook-vs-king-pawn HeartDisease(Cleveland) corral
    CreditScreening PimaIndiansDiabetes flare German GlassIdentification glass2 heart Hepatitis
    IrisClassification LetterRecognition Lymphography mofn-3-7-10 Satellite Segment shuttle-small
    soybean-large Vehicle HouseVotes84 waveform-21
    """
)
