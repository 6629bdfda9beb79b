# SPDX-License-Identifier: MIT OR Apache-2.0
"""The driver must be the simulated one: `cargo xtask python` puts it on the library path."""

import metrale
import pytest
from application import Application, Simulator


@pytest.fixture(scope="session")
def simulator():
    return Simulator()


@pytest.fixture(scope="session")
def application(simulator):
    return Application()


@pytest.fixture
def install(application):
    """Installs a recorder for one test, and drains it for a snapshot."""

    def install(**options):
        assert metrale.install(application.context, **options)
        return settled

    def settled():
        application.synchronize()
        assert metrale.drain() == 0
        return metrale.snapshot()

    yield install
    metrale.close()
    assert metrale.driver() is None
