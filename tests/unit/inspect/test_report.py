"""kcl.inspect.report: what a process does as it ends, and while it runs for that."""

import pytest


@pytest.mark.one_platform
class TestAtExit:
    def test_asked_for(self, project):
        """KCL_REPORT=1 prints the table on stderr at exit, whatever the driver is; without it there is nothing."""
        run = project.run("warned", KCL_REPORT="1")
        first = [
            line.split()[0]
            for line in run.stderr.splitlines()
            if line.startswith(("layer", "generator", "binary"))
        ]
        assert first == ["layer", "generator", "binary", "generator:", "binary:"]
        assert "/pyopencl/kcl-binary-v1" in run.stderr
        assert "generator" not in project.run("warned").stderr

    def test_closed_stream(self, project):
        """A closed stderr at exit is nobody's fault."""
        project.edit(
            "driver.py",
            "    main(*sys.argv[1:])\n",
            "    main(*sys.argv[1:])\n    sys.stderr.close()\n",
        )
        assert project.run("warned", KCL_REPORT="1").code == 0
