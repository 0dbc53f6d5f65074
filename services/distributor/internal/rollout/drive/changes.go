// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"slices"
	"strings"
)

const (
	// maxChanges bounds the phrases about a rollout.
	maxChanges = 16
	// maxContents bounds the contents that a rollout is shown with.
	maxContents = 32
)

// Summarize brings the summary in line with the members.
func (r *Record) Summarize() { r.Summary = Summary{Changes: r.Changes(), Contents: r.contents()} }

func (r *Record) contents() (all []Content) {
	names, seen := map[string]bool{}, map[Content]bool{}
	for _, p := range r.Run.Members {
		if p.From == p.To || names[p.To] {
			continue
		}
		names[p.To] = true
		for _, held := range r.Start.Contents[p.To] {
			content := Content{Repository: held.Source.Repository, Commit: held.Snapshot.Commit, Version: held.Snapshot.Version}
			if seen[content] || len(all) >= maxContents {
				continue
			}
			seen[content] = true
			all = append(all, content)
		}
	}
	return all
}

// Changes returns the changes of the rollout, as phrases for a person: "content", "configuration"
// with the names of keys, and the phrases of [catalog.StagedSpec.Changes]. Members have few
// different specs, so each pair is compared once.
func (r *Record) Changes() []string {
	var all []string
	add := func(phrase string) {
		if !slices.Contains(all, phrase) {
			all = append(all, phrase)
		}
	}
	type pair struct{ from, to string }
	seen := map[pair]bool{}
	for _, p := range r.Run.Members {
		names := pair{p.From, p.To}
		if p.From == p.To || seen[names] {
			continue
		}
		seen[names] = true
		from, to := r.Start.Release(p.From), r.Start.Release(p.To)
		for _, held := range to.Content {
			if was := find(from.Content, held.Source); was != nil && was.Snapshot.Digest != held.Snapshot.Digest {
				add("content")
			}
		}
		if from.Config != "" && to.Config != "" && from.Config != to.Config {
			add(strings.TrimSpace("configuration " + strings.Join(r.Start.ConfigKeys, ", ")))
		}
		specs := pair{r.Start.SpecOf[p.From], r.Start.SpecOf[p.To]}
		if from.Spec == nil || to.Spec == nil || seen[specs] {
			continue
		}
		seen[specs] = true
		for _, phrase := range from.Spec.Changes(to.Spec) {
			add(phrase)
		}
	}
	if len(all) > maxChanges {
		all = append(all[:maxChanges], "more")
	}
	return all
}
