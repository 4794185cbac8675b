"""Locks come back as they were held, and queues with what is in them."""

from __future__ import annotations

import queue
import threading

import pytest

from jupyter_gpupool.state.model import FindingKind
from tests.support.state_trip import save, trip


def test_a_lock_comes_back_held_or_free() -> None:
    held = threading.Lock()
    held.acquire()
    assert [lock.locked() for lock in trip([held, threading.Lock()])] == [True, False]


def test_a_lock_of_the_main_thread_is_acquired_as_often_as_it_was() -> None:
    lock = threading.RLock()
    lock.acquire()
    lock.acquire()
    made = trip(lock)
    made.release()
    made.release()
    with pytest.raises(RuntimeError):
        made.release()


def test_a_lock_of_another_thread_comes_back_free_and_that_is_said() -> None:
    lock = threading.RLock()
    thread = threading.Thread(target=lock.acquire)
    thread.start()
    thread.join(10)
    saved = save(lock)
    assert saved.back().acquire(blocking=False)
    assert [kind for kind, _ in saved.said.notes] == [FindingKind.CHANGED]


def test_events_semaphores_and_conditions_work_on() -> None:
    event, semaphore, condition = threading.Event(), threading.BoundedSemaphore(3), threading.Condition()
    event.set()
    semaphore.acquire()
    event, semaphore, condition = trip((event, semaphore, condition))
    assert event.is_set()
    semaphore.release()
    with pytest.raises(ValueError, match="too many"):
        semaphore.release()
    with condition:
        assert not condition.wait(0)


def test_threads_that_wait_are_gone_and_that_is_said() -> None:
    barrier, event = threading.Barrier(2), threading.Event()
    thread = threading.Thread(target=lambda: (event.wait(30), barrier.wait(30)), daemon=True)
    thread.start()
    while not event._cond._waiters:  # type: ignore[attr-defined]
        thread.join(0.01)
    saved = save(event)
    event.set()
    barrier.wait(30)
    thread.join(10)
    made = saved.back()
    made.set()
    assert "gone" in saved.said.notes[0][1]


def test_an_object_of_each_threads_own_keeps_what_the_main_thread_has() -> None:
    local = threading.local()
    local.x = 1
    assert trip(local).x == 1


def test_a_queue_keeps_its_items_and_its_unfinished_tasks() -> None:
    waiting: queue.Queue[int] = queue.Queue(5)
    waiting.put(1)
    waiting.put(2)
    waiting.get()
    made = trip(waiting)
    assert (made.unfinished_tasks, made.maxsize, made.get()) == (2, 5, 2)
    made.task_done()
    made.task_done()
    made.join()


def test_a_simple_queue_is_not_changed_by_being_saved() -> None:
    simple: queue.SimpleQueue[int] = queue.SimpleQueue()
    simple.put(1)
    simple.put(2)
    made = trip(simple)
    assert [made.get(), made.get(), simple.get(), simple.get()] == [1, 2, 1, 2]
