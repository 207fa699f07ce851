"""`binaryrelax report`: where it does not write."""

from lab.tests.support.command import app
from lab.tests.support.made_up import made_up_result, write_result
from typer.testing import CliRunner

from binaryrelax_lab.recipes import cifar10_resnet20


def test_a_folder_is_no_file_to_write(tmp_path):
    write_result(tmp_path / "results", made_up_result(cifar10_resnet20("bwn")))
    out = tmp_path / "report.html"
    out.mkdir()
    arguments = ["report", str(tmp_path / "results"), "--out", str(out)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert f"--out {out} is a folder; give the name of a file" in " ".join(result.output.split())
