"""What runs inside the box: standard library only, imports nothing of ours but itself.

The worker sends these modules over the socket when a box starts (`sandbox/boot.py`), so the runner's version is always
the worker's, and the box's file system holds no file of ours that a program could read.

main     the loop: receive an order, fork, watch, prove the box empty, answer with facts
confine  what is taken away from a child before it runs anything: uid, limits, system calls
streams  descriptors and the three streams over them, kept ready before a fork
prelude  the names that contest judges put before a program
launch   how a program is started, and how it ends, inside the forked child
calls    functions that are called, as contest judges do; nodes: linked lists and trees
series   a program's tests one after another in one child; harmless: whether it leaves a trace there
tools    checkers, and the compiler of native ones
assertion  the two-process form of assertion tests. The conversation: exchange, sharing (containers that both hold),
         references and kinds (what passes as data), specials (operations). The tester's side: tester, handles (what
         stands for the program's objects), names, collection, pytest_session, pytest_standin. The program's side:
         servant, foreign (what stands for the test's objects)
execution  a program from its source, with arguments and files, of which some come back
watch    limits that the kernel doesn't hold for us, and the sweep
values   plain values as bytes and back
wire     what worker and runner must agree on
"""
