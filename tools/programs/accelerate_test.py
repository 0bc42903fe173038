"""accelerate's own test script."""
from program import Program, main, torchrun

main(Program("accelerate", "accelerate", "its test_script.py, 2 ranks",
             torchrun("-m", "accelerate.test_utils.scripts.test_script"),
             # Not by lines: ranks print into each other's.
             results=r"(\*\*[A-Z][^*\n]*\*\*|Distributed environment: \S+ +Backend: \w+|All rng are properly synched\.|"
                     r"[SN][\w-]+(?: central)? dataloader passing\.|Training yielded[^.\n]*\.)",
             environment={"ACCELERATE_USE_CPU": "true"}))
