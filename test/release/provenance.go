// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"encoding/json"
	"io"
)

// page explains how releases are made, relative to the root of the tree.
const page = "docs/operations/releases.md"

// statement is an in-toto statement (v1) whose predicate is SLSA's provenance (v1). It is not signed:
// the service that signs it vouches for it.
type statement struct {
	Type          string     `json:"_type"`
	Subject       []artifact `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     provenance `json:"predicate"`
}

// artifact is something that the statement is about, or that a build used.
type artifact struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest"`
}

type provenance struct {
	BuildDefinition buildDefinition `json:"buildDefinition"`
	RunDetails      runDetails      `json:"runDetails"`
}

type buildDefinition struct {
	BuildType          string            `json:"buildType"`
	ExternalParameters map[string]string `json:"externalParameters"`
	InternalParameters map[string]string `json:"internalParameters"`
	// ResolvedDependencies is the commit. The modules are in the inventories, and pinned by the commit.
	ResolvedDependencies []artifact `json:"resolvedDependencies"`
}

type runDetails struct {
	Builder builder `json:"builder"`
}

type builder struct {
	ID string `json:"id"`
}

// subject returns a file, or the index of an image, by its SHA-256.
func subject(name, sum string) artifact {
	return artifact{Name: name, Digest: map[string]string{"sha256": sum}}
}

// refName returns the tag of the release, or the commit that has none yet.
func (m *maker) refName() string {
	if m.checkout.isTagged {
		return m.version.Tag()
	}
	return m.checkout.commit
}

// writeProvenance writes one statement about the products of a set. source is the URL of the
// repository. The statement holds no time and no number of the run, so the same commit gives the
// same bytes.
func (m *maker) writeProvenance(kind set, source, goVersion string) error {
	ref := m.refName()
	if m.checkout.isTagged {
		ref = "refs/tags/" + ref
	}
	s := statement{
		Type: "https://in-toto.io/Statement/v1", Subject: m.made[kind], PredicateType: "https://slsa.dev/provenance/v1",
		Predicate: provenance{
			BuildDefinition: buildDefinition{
				BuildType:            source + "/blob/main/" + page + "#how-it-is-made",
				ExternalParameters:   map[string]string{"repository": source, "ref": ref, "version": m.version.Tag()},
				InternalParameters:   map[string]string{"go": goVersion},
				ResolvedDependencies: []artifact{{URI: "git+" + source + "@" + ref, Digest: map[string]string{"gitCommit": m.checkout.commit}}},
			},
			RunDetails: runDetails{Builder: builder{ID: source + "/blob/main/" + page + "#who-vouches-for-it"}},
		},
	}
	return m.write("", "leat_"+m.version.Number()+"_"+string(kind)+".intoto.jsonl", func(w io.Writer) error {
		return json.NewEncoder(w).Encode(s)
	})
}
