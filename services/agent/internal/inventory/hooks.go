// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"encoding/json"
	"maps"
	"slices"
)

// Hooks is what is remembered about a service's hooks, so that each runs once for a change however often the agent is restarted.
// It is a value: its methods return what it becomes.
type Hooks struct {
	// Change names the inputs that the hooks were run for last, and Run that very run. A change that is made a second time is
	// another run. Both are empty before the first.
	Change string `json:"change,omitempty"`
	Run    string `json:"run,omitempty"`
	// Ended holds what became of the hooks of the run: a message of those that failed, and nothing of those that succeeded.
	Ended map[string]string `json:"ended,omitempty"`
	// Objects are the hooks that may be in the cluster, those of earlier runs included. They are not among the service's objects.
	Objects []Object `json:"objects,omitempty"`
	// Farewell are the manifests of the hooks that are run when the service goes: nobody has its manifests then.
	Farewell []json.RawMessage `json:"farewell,omitempty"`
}

// Begin is h at the start of another run.
func (h Hooks) Begin(change, run string) Hooks {
	h.Change, h.Run, h.Ended = change, run, nil
	return h
}

// End is h when a hook has ended. Failure is empty where it succeeded.
func (h Hooks) End(hook, failure string) Hooks {
	h.Ended = maps.Clone(h.Ended)
	if h.Ended == nil {
		h.Ended = map[string]string{}
	}
	h.Ended[hook] = failure
	return h
}

// Failed tells whether a hook of the run failed.
func (h Hooks) Failed() bool {
	for _, failure := range h.Ended {
		if failure != "" {
			return true
		}
	}
	return false
}

// Retry is h at the start of a run that repeats what failed in the one before.
func (h Hooks) Retry(run string) Hooks {
	h.Run, h.Ended = run, maps.Clone(h.Ended)
	maps.DeleteFunc(h.Ended, func(_, failure string) bool { return failure != "" })
	return h
}

// Put is h with an object, in place of the one with its key.
func (h Hooks) Put(o Object) Hooks {
	h = h.Remove(o.Key)
	h.Objects = append(h.Objects, o)
	return h
}

// Remove is h without the object of that key.
func (h Hooks) Remove(k Key) Hooks {
	h.Objects = slices.DeleteFunc(slices.Clone(h.Objects), func(o Object) bool { return o.Key == k })
	return h
}

// Get returns the object with that key.
func (h Hooks) Get(k Key) (Object, bool) {
	i := slices.IndexFunc(h.Objects, func(o Object) bool { return o.Key == k })
	if i < 0 {
		return Object{}, false
	}
	return h.Objects[i], true
}
