"""Every format: what is written is read, and what is wrong is refused at its place."""

import gzip

import numpy as np
import pytest
from torture.model_mutations import damage

from tanager.errors import ConfigurationError, ModelFileError, TanagerError
from tanager.network.readers import open_network, parse_network
from tests.network.readers.cases import WRITERS, as_bif, as_net, as_xdsl, as_xmlbif, random_network


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("seed", range(6))
def test_a_written_network_is_read(name, seed):
    kind, write = WRITERS[name]
    variables = random_network(np.random.default_rng(seed), zeros=1.0 if seed == 0 else 0.1)
    found, notes = parse_network(write(variables).encode(), kind)
    assert notes == {}
    for read, wanted in zip(found, variables, strict=True):
        assert (read.name, read.states, read.parents) == (
            wanted.name,
            wanted.states,
            wanted.parents,
        )
        assert np.allclose(read.probabilities, wanted.probabilities, rtol=1e-15, atol=0)


def test_a_packed_file_and_a_named_format_are_read(tmp_path):
    variables = random_network(np.random.default_rng(0))
    path = tmp_path / "n.bif.gz"
    path.write_bytes(gzip.compress(as_bif(variables).encode()))
    assert [v.name for v in open_network(path)[0]] == [v.name for v in variables]
    plain = tmp_path / "n.txt"
    plain.write_text(as_net(variables))
    assert len(open_network(plain, "net")[0]) == len(variables)
    with pytest.raises(ConfigurationError, match=r"'\.txt' is unknown"):
        open_network(plain)
    with pytest.raises(ConfigurationError, match="format='uai' isn't valid"):
        open_network(plain, "uai")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ModelFileError, match="cannot be unpacked"):
        open_network(path)


def test_default_rows_and_states_with_signs_are_read():
    text = """network n { }
variable O2 { type discrete [ 3 ] { <5, 5-12, 12+ }; }
variable X { type discrete [ 2 ] { Asy/Patch, "two words" }; }
probability ( O2 ) { table 0.2, 0.3, 0.5; }
probability ( X | O2 ) { (<5) 0.1, 0.9; default 0.4, 0.6; }
"""
    (o2, x), _ = parse_network(text.encode(), "bif")
    assert o2.states == ("<5", "5-12", "12+")
    assert x.states == ("Asy/Patch", "two words")
    assert x.probabilities.tolist() == [[0.1, 0.9], [0.4, 0.6], [0.4, 0.6]]


def test_the_first_parent_is_the_fastest_where_agrum_wrote_the_file():
    text = """<smile><nodes>
<cpt id="a"><state id="x"/><state id="y"/><probabilities>0.5 0.5</probabilities></cpt>
<cpt id="b"><state id="u"/><state id="v"/><probabilities>0.5 0.5</probabilities></cpt>
<cpt id="c"><state id="s"/><state id="t"/><parents>a b</parents>
<probabilities>0.1 0.9 0.2 0.8 0.3 0.7 0.4 0.6</probabilities></cpt>
</nodes><extensions><genie app="{app}"/></extensions></smile>"""
    genie = parse_network(text.replace("{app}", "GeNIe 4").encode(), "xdsl")[0][2]
    agrum = parse_network(text.replace("{app}", "aGrUM 2").encode(), "xdsl")[0][2]
    assert (genie.parents, agrum.parents) == ((0, 1), (1, 0))
    assert genie.probabilities[0, 1, 0] == 0.2  # a=x, b=v
    assert agrum.probabilities[1, 0, 0] == 0.3  # b=v, a=x


BIF = """network n {
}
variable a { type discrete [ 2 ] { x, y }; }
variable b { type discrete [ 2 ] { u, v }; }
probability ( a ) { table 0.5, 0.5; }
probability ( b | a ) {
  (x) 0.1, 0.9;
  (y) 0.2, 0.8;
}
"""
WRONG_BIF = [
    ("{ x, y }", "{ x, x }", r"line 3, column 39: 'a' has the state 'x' twice"),
    ("[ 2 ] { x", "[ 3 ] { x", r"line 3, column 30: 'a' has 2 states, not 3"),
    ("type discrete [ 2 ] { u", "type continuous [ 2 ] { u", r"line 4, column 19: 'b' is 'cont"),
    ("variable b", "variable a", r"line 4, column 10: the node 'a' is declared twice"),
    ("( b | a )", "( b | c )", r"line 6, column 19: the node 'c' is not declared"),
    ("(y) 0.2", "(z) 0.2", r"line 8, column 4: 'a' has no state 'z'; its states: 'x', 'y'"),
    ("(y) 0.2", "(x) 0.2", r"line 8, column 3: this row of 'b' is there already"),
    ("  (y) 0.2, 0.8;\n", "", r"line 6, column 15: the table of 'b' lacks 1 of its rows"),
    ("0.2, 0.8", "0.2, 0.7", r"line 6, column 15: the probabilities of 'b' given a=y sum to 0.9"),
    ("0.2, 0.8", "-0.2, 1.2", r"the table of 'b' has a number that isn't a probability"),
    ("0.2, 0.8", "0.2, nan", r"the table of 'b' (has a number|lacks)"),
    ("0.2, 0.8", "0.2", r"line 8, column 7: the table of 'b' has 1 numbers where 2 are expected"),
    ("0.2, 0.8", "0.2, much", r"line 8, column 12: 'much' is not a number"),
    ("( a ) { table", "( a | b ) { (u) 0.5, 0.5; (v)", r"cycle among"),
    ("probability ( a ) { table 0.5, 0.5; }\n", "", r"line 3, column 10: the node 'a' has no tab"),
    ("\n}\n", "\n", r"'\}'"),
    ("{ u, v }", '{ "u, v }', r"line 4, column 36: a quotation mark is never closed"),
    ("network n", "nonsense n", r"line 1, column 1: 'network', 'variable' or 'probability' is exp"),
]


@pytest.mark.parametrize(("old", "new", "message"), WRONG_BIF)
def test_what_is_wrong_in_bif_is_told_with_its_place(old, new, message, tmp_path):
    assert old in BIF
    path = tmp_path / "wrong.bif"
    path.write_text(BIF.replace(old, new, 1) if old != "\n}\n" else BIF[:-2])
    with pytest.raises(ModelFileError, match=message) as told:
        open_network(path)
    assert str(path) in str(told.value)


def test_nodes_that_are_no_chance_nodes_are_refused_by_name():
    variables = random_network(np.random.default_rng(1))
    xdsl = as_xdsl(variables).replace("<nodes>", '<nodes><utility id="cost"></utility>')
    with pytest.raises(ModelFileError, match="line 2, column 36: 'cost' is a <utility> node"):
        parse_network(xdsl.encode(), "xdsl")
    net = as_net(variables).replace("node n0", "continuous node n0")
    with pytest.raises(ModelFileError, match="'n0' is a continuous node"):
        parse_network(net.encode(), "net")
    xml = as_xmlbif(variables).replace('"nature"', '"decision"', 1)
    with pytest.raises(ModelFileError, match="'n0' is a decision node"):
        parse_network(xml.encode(), "xmlbif")


def test_xml_expands_nothing_and_fetches_nothing():
    bomb = '<!DOCTYPE BIF [ <!ENTITY a "aaaaaaaaaa"> ]>\n<BIF>&a;</BIF>'
    with pytest.raises(ModelFileError, match="line 1, column 28: the file declares an entity"):
        parse_network(bomb.encode(), "xmlbif")
    outside = '<!DOCTYPE BIF SYSTEM "file:///etc/passwd"><BIF>&x;</BIF>'
    with pytest.raises(ModelFileError):
        parse_network(outside.encode(), "xmlbif")
    deep = "<BIF>" * 100_000
    with pytest.raises(ModelFileError, match="nested more than 50 deep"):
        parse_network(deep.encode(), "xmlbif")
    with pytest.raises(ModelFileError, match="begins with <smile>; xmlbif begins with <BIF>"):
        parse_network(b"<smile/>", "xmlbif")
    with pytest.raises(ModelFileError, match="line 1, column 1: this is not XML"):
        parse_network(b"hello", "xdsl")


def test_a_table_too_large_is_refused_before_it_is_made():
    many = [f"p{i}" for i in range(40)]
    lines = [f"variable {p} {{ type discrete [ 2 ] {{ a, b }}; }}" for p in [*many, "c"]]
    lines.append(f"probability ( c | {', '.join(many)} ) {{ table 1; }}")
    with pytest.raises(ModelFileError, match=r"the table of 'c' has 2,199,023,255,552 cells"):
        parse_network("\n".join(lines).encode(), "bif")


@pytest.mark.parametrize("name", WRITERS)
def test_damaged_files_are_read_or_refused(name):
    import random

    kind, write = WRITERS[name]
    whole = write(random_network(np.random.default_rng(2))).encode()
    generator = random.Random(3)
    for _ in range(300):
        try:
            parse_network(damage(whole, generator), kind)
        except TanagerError:
            continue
