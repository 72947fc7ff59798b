"""All foreign routes, bound to one service."""

from fastapi import APIRouter

from service.compat.performing import Performer
from service.compat.piston import JobIn, add_piston
from service.compat.remote_reward import OpenRlhfIn, SlimeIn, add_remote_rewards
from service.compat.sandboxfusion import add_run_code
from service.compat.sandboxfusion_datasets import add_datasets
from service.compat.sandboxfusion_wire import PromptByIdIn, PromptsIn, RunCodeIn, SubmitIn
from service.evaluations import Evaluations
from service.settings import Settings

BODIES = (RunCodeIn, PromptsIn, PromptByIdIn, SubmitIn, JobIn, OpenRlhfIn, SlimeIn)
"""What these routes are sent."""


def make_compat_router(settings: Settings, evaluations: Evaluations) -> APIRouter:
    """The routes of SandboxFusion, of Piston, and reward URLs."""
    router = APIRouter()
    performer = Performer(settings, evaluations)
    add_run_code(router, settings, performer)
    add_datasets(router, settings, performer)
    add_piston(router, settings, evaluations, performer)
    add_remote_rewards(router, settings, performer)
    return router
