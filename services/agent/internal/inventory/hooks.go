// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"encoding/json"
	"maps"
	"slices"
)

// Hooks is the recorded state of a service's hooks. It makes each hook run once for a change,
// however often the agent restarts. It is a value: its methods return the new state.
type Hooks struct {
	// Change identifies the inputs that the hooks last ran for, and Run that very run. The same
	// change can occur again later, which is another run. Both are empty before the first.
	Change string `json:"change,omitempty"`
	Run    string `json:"run,omitempty"`
	// Ended has an entry for each hook of the run that has ended: a message if it failed, and "" if
	// it succeeded.
	Ended map[string]string `json:"ended,omitempty"`
	// Objects are the hooks that may be in the cluster, including the hooks of earlier runs. They are
	// not among the service's objects.
	Objects []Object `json:"objects,omitempty"`
	// DeleteHooks are the manifests of the hooks that run when the service is removed. They are
	// stored because the bundle may be gone by then.
	DeleteHooks []json.RawMessage `json:"farewell,omitempty"`
}

// Begin returns h at the start of another run.
func (h Hooks) Begin(change, run string) Hooks {
	h.Change, h.Run, h.Ended = change, run, nil
	return h
}

// End returns h after a hook has ended. Failure is empty if it succeeded.
func (h Hooks) End(hook, failure string) Hooks {
	h.Ended = maps.Clone(h.Ended)
	if h.Ended == nil {
		h.Ended = map[string]string{}
	}
	h.Ended[hook] = failure
	return h
}

// Failed reports whether a hook of the run failed.
func (h Hooks) Failed() bool {
	for _, failure := range h.Ended {
		if failure != "" {
			return true
		}
	}
	return false
}

// Retry returns h at the start of a run that repeats the failed hooks of the one before.
func (h Hooks) Retry(run string) Hooks {
	h.Run, h.Ended = run, maps.Clone(h.Ended)
	maps.DeleteFunc(h.Ended, func(_, failure string) bool { return failure != "" })
	return h
}

// Put returns h with an object added or replaced.
func (h Hooks) Put(o Object) Hooks {
	h = h.Remove(o.Key)
	h.Objects = append(h.Objects, o)
	return h
}

// Remove returns h without the object of that key.
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
