// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"errors"
	"testing"

	"github.com/leatdev/leat/internal/testkit/faults"
)

var errPlanned = errors.New("planned")

func TestRules(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		plan func(*faults.Injector)
		want []bool // whether each of the calls in turn fails
	}{
		"nothing":    {func(*faults.Injector) {}, []bool{false, false}},
		"fail":       {func(i *faults.Injector) { i.Fail("op", errPlanned) }, []bool{true, true, true}},
		"fail times": {func(i *faults.Injector) { i.FailTimes("op", 2, errPlanned) }, []bool{true, true, false}},
		"do":         {func(i *faults.Injector) { i.Do("op", func() error { return errPlanned }) }, []bool{true, true}},
		"other":      {func(i *faults.Injector) { i.Fail("other", errPlanned) }, []bool{false}},
		"clear": {func(i *faults.Injector) {
			i.Fail("op", errPlanned)
			i.Clear("op")
		}, []bool{false}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inject := faults.New()
			test.plan(inject)
			for n, want := range test.want {
				if err := inject.Check("op"); errors.Is(err, errPlanned) != want {
					t.Errorf("call %d: got %v, want failure %t", n, err, want)
				}
			}
			if got, want := inject.Count("op"), len(test.want); got != want {
				t.Errorf("count: got %d, want %d", got, want)
			}
		})
	}
}

func TestBlock(t *testing.T) {
	t.Parallel()
	inject := faults.New()
	entered, release := inject.Block("op")
	done := make(chan error, 1)
	go func() { done <- inject.Check("op") }()
	<-entered
	select {
	case <-done:
		t.Fatal("a blocked operation returned before it was released")
	default:
	}
	release()
	release()
	if err := <-done; err != nil {
		t.Errorf("released operation: got %v, want nil", err)
	}
	if err := inject.Check("op"); err != nil {
		t.Errorf("operation after release: got %v, want nil", err)
	}
}
