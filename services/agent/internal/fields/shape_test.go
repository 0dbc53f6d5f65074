// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fields_test

import (
	"testing"

	"github.com/leatdev/leat/internal/contract/syncpolicy"
)

// TestShape applies a manifest as Leat, lets others change the object, and checks which part of the
// next manifest is applied then. In each case nothing that is ignored may change.
func TestShape(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		first    string // applied by Leat
		others   func(t *testing.T, s *server)
		pointers []string
		managers []string
		next     string
		want     string
	}{
		"owned by another by update": {
			first:    "spec: {replicas: 1, paused: true}",
			others:   func(t *testing.T, s *server) { s.set(t, "hpa", int64(5), "spec", "replicas") },
			pointers: []string{"/spec/replicas"}, next: "spec: {replicas: 2, paused: true}", want: "spec: {paused: true}",
		},
		"owned by another by apply": {
			first:    "spec: {paused: true}",
			others:   func(t *testing.T, s *server) { s.mustApply(t, "hpa", "spec: {replicas: 5}") },
			pointers: []string{"/spec/replicas"}, next: "spec: {replicas: 2, paused: true}", want: "spec: {paused: true}",
		},
		"owned together": {
			first:    "spec: {replicas: 5, paused: true}",
			others:   func(t *testing.T, s *server) { s.mustApply(t, "hpa", "spec: {replicas: 5}") },
			pointers: []string{"/spec/replicas"}, next: "spec: {replicas: 2, paused: true}", want: "spec: {paused: true}",
		},
		"only ours": {
			first: "spec: {replicas: 5, paused: true}", pointers: []string{"/spec/replicas"},
			next: "spec: {replicas: 2, paused: false}", want: "spec: {replicas: 5, paused: false}",
		},
		"only ours, and no longer in the manifest": {
			first: "spec: {replicas: 5, paused: true}", pointers: []string{"/spec/replicas"},
			next: "spec: {paused: true}", want: "spec: {replicas: 5, paused: true}",
		},
		"only ours, and the map around it left the manifest": {
			first: "data: {a: '1'}\nspec: {paused: true}", pointers: []string{"/data/a"},
			next: "spec: {paused: true}", want: "data: {a: '1'}\nspec: {paused: true}",
		},
		"new in the manifest, and not in the cluster": {
			first: "spec: {paused: true}", pointers: []string{"/spec/replicas"},
			next: "spec: {replicas: 2, paused: true}", want: "spec: {paused: true}",
		},
		"new in the manifest with all around it": {
			first: "spec: {paused: true}", pointers: []string{"/data/a"},
			next: "spec: {paused: true}\ndata: {a: '1', b: '2'}", want: "spec: {paused: true}\ndata: {b: '2'}",
		},
		"removed by another": {
			first:    "data: {a: '1', b: '2'}",
			others:   func(t *testing.T, s *server) { s.set(t, "x", map[string]any{"b": "2"}, "data") },
			pointers: []string{"/data/a"}, next: "data: {a: '1', b: '3'}", want: "data: {b: '3'}",
		},
		"last of its map": {
			first:    "data: {a: '1'}\nspec: {paused: true}",
			others:   func(t *testing.T, s *server) { s.set(t, "x", "9", "data", "a") },
			pointers: []string{"/data/a"}, next: "data: {a: '2'}\nspec: {paused: true}", want: "spec: {paused: true}",
		},
		"every field of a map": {
			first:    "data: {a: '1', b: '2'}",
			others:   func(t *testing.T, s *server) { s.set(t, "x", "9", "data", "a") },
			pointers: []string{"/data/*"}, next: "data: {a: '2', b: '3', c: '4'}", want: "data: {b: '2'}",
		},
		"a map owned in parts": {
			first:    "data: {a: '1', b: '2'}",
			others:   func(t *testing.T, s *server) { s.set(t, "x", "9", "data", "a") },
			pointers: []string{"/data"}, next: "data: {a: '2', b: '3'}", want: "data: {b: '2'}",
		},
		"a field with a slash in its name": {
			first:    "metadata: {annotations: {example.test/a: '1', b: '2'}}",
			others:   func(t *testing.T, s *server) { s.set(t, "x", "9", "metadata", "annotations", "example.test/a") },
			pointers: []string{"/metadata/annotations/example.test~1a"}, next: "metadata: {annotations: {example.test/a: '1', b: '3'}}",
			want: "metadata: {annotations: {b: '3'}}",
		},
		"a field of an item by name": {
			first:    "spec: {items: [{name: a, image: '1'}, {name: b, image: '1'}]}",
			others:   func(t *testing.T, s *server) { s.mustApply(t, "x", "spec: {items: [{name: b, image: '9'}]}") },
			pointers: []string{"/spec/items/[name=b]/image"}, next: "spec: {items: [{name: a, image: '2'}, {name: b, image: '2', size: 1}]}",
			want: "spec: {items: [{name: a, image: '2'}, {name: b, size: 1}]}",
		},
		"a field of an item by number": {
			first: "spec: {items: [{name: a, image: '1'}, {name: b, image: '1'}]}", pointers: []string{"/spec/items/1/image"},
			next: "spec: {items: [{name: a, image: '2'}, {name: b, image: '2'}]}", want: "spec: {items: [{name: a, image: '2'}, {name: b, image: '1'}]}",
		},
		"a field of every item": {
			first: "spec: {items: [{name: a, image: '1'}, {name: b, image: '1'}]}",
			others: func(t *testing.T, s *server) {
				s.mustApply(t, "x", "spec: {items: [{name: b, image: '9'}, {name: z, image: '9'}]}")
			},
			pointers: []string{"/spec/items/*/image"}, next: "spec: {items: [{name: a, image: '2'}, {name: b, image: '2'}, {name: c, image: '2'}]}",
			want: "spec: {items: [{name: a, image: '1'}, {name: b}, {name: c, image: '2'}]}",
		},
		"an item that left the manifest takes its ignored fields along": {
			first: "spec: {items: [{name: a, image: '1'}, {name: b, image: '1'}]}", pointers: []string{"/spec/items/[name=b]/image"},
			next: "spec: {items: [{name: a, image: '1'}]}", want: "spec: {items: [{name: a, image: '1'}]}",
		},
		"an ignored item that left the manifest": {
			first: "spec: {items: [{name: a, image: '1'}, {name: b, image: '1'}, {name: c}]}", pointers: []string{"/spec/items/[name=b]"},
			next: "spec: {items: [{name: a, image: '1'}, {name: c}]}", want: "spec: {items: [{name: a, image: '1'}, {name: b, image: '1'}, {name: c}]}",
		},
		"an ignored item of another": {
			first:    "spec: {items: [{name: a, image: '1'}]}",
			others:   func(t *testing.T, s *server) { s.mustApply(t, "x", "spec: {items: [{name: b, image: '9'}]}") },
			pointers: []string{"/spec/items/[name=b]"}, next: "spec: {items: [{name: a, image: '2'}, {name: b, image: '1'}]}",
			want: "spec: {items: [{name: a, image: '2'}]}",
		},
		"an ignored item that does not exist": {
			first: "spec: {items: [{name: a, image: '1'}]}", pointers: []string{"/spec/items/[name=b]"},
			next: "spec: {items: [{name: a, image: '1'}, {name: b, image: '1'}]}", want: "spec: {items: [{name: a, image: '1'}]}",
		},
		"an item that both have": {
			first:    "spec: {items: [{name: a, image: '1', size: 1}]}",
			others:   func(t *testing.T, s *server) { s.mustApply(t, "x", "spec: {items: [{name: a, image: '9'}]}") },
			pointers: []string{"/spec/items/[name=a]"}, next: "spec: {items: [{name: a, image: '2', size: 2}]}",
			want: "spec: {items: [{name: a, size: 1}]}",
		},
		"an item in an item": {
			first: "spec: {items: [{name: a, env: [{name: A, value: '1'}, {name: B, value: '1'}]}]}",
			others: func(t *testing.T, s *server) {
				s.mustApply(t, "x", "spec: {items: [{name: a, env: [{name: A, value: '9'}]}]}")
			},
			pointers: []string{"/spec/items/[name=a]/env/[name=A]/value"},
			next:     "spec: {items: [{name: a, env: [{name: A, value: '2'}, {name: B, value: '2'}]}]}",
			want:     "spec: {items: [{name: a, env: [{name: A}, {name: B, value: '2'}]}]}",
		},
		"a set": {
			first:    "metadata: {finalizers: [a, b]}",
			others:   func(t *testing.T, s *server) { s.mustApply(t, "x", "metadata: {finalizers: [b, c]}") },
			pointers: []string{"/metadata/finalizers"}, next: "metadata: {finalizers: [d]}", want: "metadata: {finalizers: [a]}",
		},
		"all items of a set": {
			first: "metadata: {finalizers: [a, b]}", pointers: []string{"/metadata/finalizers/*"},
			next: "metadata: {finalizers: [d]}", want: "metadata: {finalizers: [a, b]}",
		},
		"a part of an atomic map": {
			first: "spec: {selector: {a: '1', b: '1'}}", pointers: []string{"/spec/selector/a"},
			next: "spec: {selector: {a: '2', b: '2'}}", want: "spec: {selector: {a: '1', b: '2'}}",
		},
		"a part of an atomic map of another": {
			first:    "spec: {paused: true}",
			others:   func(t *testing.T, s *server) { s.mustApply(t, "x", "spec: {selector: {a: '9', b: '1'}}") },
			pointers: []string{"/spec/selector/a"}, next: "spec: {paused: true, selector: {a: '2', b: '1'}}",
			want: "spec: {paused: true, selector: {a: '9', b: '1'}}",
		},
		"a part of an atomic list": {
			first: "spec: {rules: [{host: a, path: x}, {host: b}]}", pointers: []string{"/spec/rules/0/host"},
			next: "spec: {rules: [{host: z, path: y}, {host: z}]}", want: "spec: {rules: [{host: a, path: y}, {host: z}]}",
		},
		"a part of an atomic list by selector": {
			first: "spec: {rules: [{host: a, path: x}, {host: b, path: x}]}", pointers: []string{"/spec/rules/[host=b]/path"},
			next: "spec: {rules: [{host: b, path: y}, {host: c, path: y}]}", want: "spec: {rules: [{host: b, path: x}, {host: c, path: y}]}",
		},
		"an atomic list of another": {
			first:    "spec: {rules: [{host: a}]}",
			others:   func(t *testing.T, s *server) { s.mustApply(t, "x", "spec: {rules: [{host: b}]}") },
			pointers: []string{"/spec/rules"}, next: "spec: {rules: [{host: c}], paused: true}", want: "spec: {paused: true}",
		},
		"Leat's label cannot be ignored": {
			first: "metadata: {labels: {leat.dev/service: a, x: '1'}}", pointers: []string{"/metadata/labels"},
			next: "metadata: {labels: {leat.dev/service: b, x: '2'}}", want: "metadata: {labels: {leat.dev/service: b, x: '1'}}",
		},
		"by manager": {
			first: "spec: {replicas: 1, paused: true, items: [{name: a, image: '1', size: 1}, {name: b}], rules: [1]}\ndata: {a: '1'}\nmetadata: {finalizers: [f, g]}",
			others: func(t *testing.T, s *server) {
				s.mustApply(t, "hpa-1", "spec: {replicas: 9, items: [{name: a, image: '9'}], rules: [2]}\ndata: {a: '9'}\nmetadata: {finalizers: [f]}")
			},
			managers: []string{"hpa-?"},
			next:     "spec: {replicas: 1, paused: false, items: [{name: a, image: '2', size: 2}, {name: b}], rules: [3]}\ndata: {a: '2'}\nmetadata: {finalizers: [f, g]}",
			want:     "spec: {paused: false, items: [{name: a, size: 2}, {name: b}]}\nmetadata: {finalizers: [g]}",
		},
		"by manager, of which some are others": {
			first:    "spec: {replicas: 1, paused: true}",
			others:   func(t *testing.T, s *server) { s.set(t, "person", int64(9), "spec", "replicas") },
			managers: []string{"hpa"}, next: "spec: {replicas: 2, paused: true}", want: "spec: {replicas: 2, paused: true}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.mustApply(t, "leat", test.first)
			if test.others != nil {
				test.others(t, s)
			}
			next, live := thing(t, test.next), s.live(t)
			ignored := ignore(t, next, syncpolicy.IgnoreRule{Pointers: test.pointers, Managers: test.managers})
			shaped := ignored.Shape(next, live)
			assertThing(t, test.want, shaped)
			assertThing(t, test.next, next) // untouched
			if err := s.apply(t, "leat", shaped, true); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestShapeOfNew(t *testing.T) {
	t.Parallel()
	next := thing(t, "spec: {replicas: 2}")
	ignored := ignore(t, next, syncpolicy.IgnoreRule{Pointers: []string{"/spec/replicas"}, Managers: []string{"*"}})
	assertThing(t, "spec: {replicas: 2}", ignored.Shape(next, nil))
}
