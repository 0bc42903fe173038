"""Hugging Face's Trainer, which makes its group by accelerate."""
import sys

from program import Program, main, torchrun

if __name__ == "__main__" and sys.argv[1:] != ["rank"]:
    main(Program("transformers_trainer", "transformers", "Trainer, a BERT of two layers, 2 ranks", torchrun(__file__, "rank"),
                 ["transformers", "accelerate"], near=1e-3, environment={"TOKENIZERS_PARALLELISM": "false"}))
    sys.exit()

import tempfile
import time

import torch
import torch.distributed as dist
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

set_seed(1)
model = BertForSequenceClassification(BertConfig(vocab_size=100, hidden_size=64, num_hidden_layers=2, num_attention_heads=2,
                                                 intermediate_size=128, hidden_dropout_prob=0, attention_probs_dropout_prob=0))
data = [{"input_ids": torch.randint(0, 100, (16,)), "labels": torch.tensor(number % 2)} for number in range(256)]
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(folder, per_device_train_batch_size=8, num_train_epochs=8, use_cpu=True, ddp_backend="gloo",
                                  report_to=[], save_strategy="no", disable_tqdm=True, logging_strategy="no")
    trainer = Trainer(model, arguments, train_dataset=data, eval_dataset=data)
    begin = time.perf_counter()
    trainer.train()
    seconds = time.perf_counter() - begin
    loss = trainer.evaluate()["eval_loss"]
if dist.get_rank() == 0:
    print("RESULT", dist.get_backend(), loss, *(each.double().abs().sum().item() for each in list(model.parameters())[:4]))
    print("SECONDS", seconds)
dist.destroy_process_group()
