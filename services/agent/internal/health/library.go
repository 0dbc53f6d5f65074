// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"embed"
	"fmt"
	"path"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/internal/syncpolicy"
)

// files are the rules that Leat brings, a file for each project or vendor. They have the format of a policy's healthRules.
//
//go:embed library/*.yaml
var files embed.FS

// Vendor is a file of the library.
type Vendor struct {
	// Name is the project's or the vendor's.
	Name string `json:"vendor"`
	// Rules are its rules. A rule whose group and kind have no wildcards comes before those that have.
	Rules []syncpolicy.HealthRule `json:"healthRules"`
}

// Vendors reads the library, by name of the files.
func Vendors() ([]Vendor, error) {
	entries, err := files.ReadDir("library")
	if err != nil {
		return nil, fmt.Errorf("list library: %w", err)
	}
	vendors := make([]Vendor, len(entries))
	for i, entry := range entries {
		content, err := files.ReadFile(path.Join("library", entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("read library: %w", err)
		}
		if err := yaml.UnmarshalStrict(content, &vendors[i]); err != nil {
			return nil, fmt.Errorf("parse library/%s: %w", entry.Name(), err)
		}
	}
	return vendors, nil
}

// Library judges objects by Kubernetes' own kinds, by the rules that Leat brings, and by what controllers have in common. It is
// safe for concurrent use.
//
// The files are read when the first object of a foreign kind is judged, and a rule is compiled when the first object of its
// kinds is: an agent pays for what its cluster runs.
type Library struct {
	load func() ([]*lazyRule, error)

	mu    sync.RWMutex
	known map[[2]string]*rule // by group and kind; nil where the library has no rule
}

// lazyRule is a rule of the library.
type lazyRule struct {
	source  syncpolicy.HealthRule
	compile func() (*rule, error)
}

// NewLibrary returns a library that has read and compiled nothing yet.
func NewLibrary() *Library {
	return &Library{load: sync.OnceValues(loadRules), known: map[[2]string]*rule{}}
}

// loadRules reads all rules, those without wildcards first.
func loadRules() ([]*lazyRule, error) {
	vendors, err := Vendors()
	if err != nil {
		return nil, err
	}
	var exact, wild []*lazyRule
	for _, v := range vendors {
		for _, r := range v.Rules {
			lazy := &lazyRule{source: r, compile: sync.OnceValues(func() (*rule, error) { return compile(r) })}
			if strings.ContainsAny(r.Group+r.Kind, "*?") {
				wild = append(wild, lazy)
			} else {
				exact = append(exact, lazy)
			}
		}
	}
	return append(exact, wild...), nil
}

// find returns the rule for a kind; nil when the library has none.
func (l *Library) find(group, kind string) *rule {
	key := [2]string{group, kind}
	l.mu.RLock()
	found, ok := l.known[key]
	l.mu.RUnlock()
	if ok {
		return found
	}
	found = l.search(group, kind)
	l.mu.Lock()
	l.known[key] = found
	l.mu.Unlock()
	return found
}

// search compiles the rule for a kind. That the library can be read and compiled is shown by the tests; were it not so, its kinds
// would be judged by what controllers have in common.
func (l *Library) search(group, kind string) *rule {
	rules, err := l.load()
	if err != nil {
		return nil
	}
	for _, r := range rules {
		if match(r.source.Kind, kind) && matchGroup(r.source.Group, group) {
			compiled, err := r.compile()
			if err != nil {
				return nil
			}
			return compiled
		}
	}
	return nil
}
