// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package faults allows a test to make one labelled operation fail, wait, or call back, and to
// count its runs.
//
// The code under test offers a hook that is called with a label before each operation ("write",
// "fetch"). The test sets it to [Injector.Check] and then configures what happens at which label:
//
//	inject := faults.New()
//	store, err := casdisk.Open(casdisk.Config{Hooks: casdisk.Hooks{Fault: func(op casdisk.Op, _ string) error {
//		return inject.Check(string(op))
//	}}})
//	inject.FailTimes("write", 1, syscall.ENOSPC)
package faults

import "sync"

// Injector decides what happens at each label. All methods may be called concurrently.
type Injector struct {
	mu     sync.Mutex
	counts map[string]int
	rules  map[string]*rule
}

// rule is the action of Check at one label.
type rule struct {
	times int // calls to act on; negative: all
	act   func() error
}

// New returns an Injector that passes everything.
func New() *Injector {
	return &Injector{counts: make(map[string]int), rules: make(map[string]*rule)}
}

// Check is the hook. It returns the error planned for the label, or nil.
func (i *Injector) Check(label string) error {
	i.mu.Lock()
	i.counts[label]++
	act := i.due(label)
	i.mu.Unlock()
	if act == nil {
		return nil
	}
	return act() // unlocked, because it may block or call back
}

func (i *Injector) due(label string) func() error {
	r := i.rules[label]
	if r == nil || r.times == 0 {
		return nil
	}
	if r.times > 0 {
		r.times--
	}
	return r.act
}

// Fail makes every further operation with this label fail, until [Injector.Clear].
func (i *Injector) Fail(label string, err error) {
	i.FailTimes(label, -1, err)
}

// FailTimes makes the next times operations with this label fail, and those after them pass.
func (i *Injector) FailTimes(label string, times int, err error) {
	i.set(label, &rule{times: times, act: func() error { return err }})
}

// Do calls act at every further operation with this label, and returns its result. act may block,
// like a slow or hanging disk.
func (i *Injector) Do(label string, act func() error) {
	i.set(label, &rule{times: -1, act: act})
}

// Block makes every further operation with this label wait until the returned function is called,
// which also clears the label. entered receives a value for each operation that begins to wait,
// unless its buffer is full.
func (i *Injector) Block(label string) (entered <-chan struct{}, release func()) {
	waiting, gate := make(chan struct{}, 16), make(chan struct{})
	i.Do(label, func() error {
		select {
		case waiting <- struct{}{}:
		default:
		}
		<-gate
		return nil
	})
	var once sync.Once
	return waiting, func() {
		once.Do(func() {
			i.Clear(label)
			close(gate)
		})
	}
}

// Clear makes operations with this label pass again.
func (i *Injector) Clear(label string) {
	i.set(label, nil)
}

// Count returns how often an operation with this label has been checked, including failures.
func (i *Injector) Count(label string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.counts[label]
}

func (i *Injector) set(label string, r *rule) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.rules[label] = r
}
