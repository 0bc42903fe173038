"""Lightning trains with its strategy "ddp", which takes Gloo for host tensors."""
import sys

from program import Program, main, torchrun

if __name__ == "__main__" and sys.argv[1:] != ["rank"]:
    main(Program("lightning_ddp", "lightning", "Trainer(strategy=\"ddp\"), 2 ranks", torchrun(__file__, "rank"), near=1e-4))
    sys.exit()

import logging
import time
import warnings

import lightning
import torch
from lightning.pytorch.demos.boring_classes import BoringModel

warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
lightning.seed_everything(1, verbose=False)
model = BoringModel()
trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=40, logger=False, enable_progress_bar=False,
                            enable_checkpointing=False, enable_model_summary=False)
begin = time.perf_counter()
trainer.fit(model)
validated = trainer.validate(model, verbose=False)
if trainer.is_global_zero:
    print("RESULT", torch.distributed.get_backend(), *(each.abs().sum().item() for each in model.parameters()), validated)
    print("SECONDS", time.perf_counter() - begin)
