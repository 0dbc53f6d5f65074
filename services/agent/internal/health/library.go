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

	"github.com/leatdev/leat/internal/contract/syncpolicy"
)

// files are the rules that Leat ships, one file for each project or vendor. They have the format of
// a policy's healthRules.
//
//go:embed library/*.yaml
var files embed.FS

// Vendor is a file of the library.
type Vendor struct {
	// Name is the name of the project or vendor.
	Name string `json:"vendor"`
	// Rules are its rules. A rule whose group and kind have no wildcards takes precedence over rules
	// with wildcards.
	Rules []syncpolicy.HealthRule `json:"healthRules"`
}

// Vendors reads the library. The result is sorted by file name.
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

// Library judges objects by the built-in kinds of Kubernetes, by the rules that Leat ships, and by
// the conventions that controllers share. It is safe for concurrent use.
//
// It reads the files when it judges the first object of a kind that is not built in, and compiles a
// rule when it judges the first object of the rule's kinds. An agent so pays only for the kinds in
// its cluster.
type Library struct {
	load func() ([]*lazyRule, error)

	mu    sync.RWMutex
	known map[[2]string]*rule // by group and kind; nil where the library has no rule
}

// lazyRule is a rule of the library that is compiled on first use.
type lazyRule struct {
	source  syncpolicy.HealthRule
	compile func() (*rule, error)
}

// NewLibrary returns a library that has not read or compiled any rule yet.
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

// find returns the rule for a kind, or nil if the library has no rule for it.
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

// search compiles the rule for a kind. Tests show that every rule of the library can be read and
// compiled. If one could not, its kinds would be judged by the conventions that controllers share.
func (l *Library) search(group, kind string) *rule {
	rules, err := l.load()
	if err != nil {
		return nil
	}
	for _, r := range rules {
		if syncpolicy.Match(r.source.Kind, kind) && syncpolicy.MatchGroup(r.source.Group, group) {
			compiled, err := r.compile()
			if err != nil {
				return nil
			}
			return compiled
		}
	}
	return nil
}
