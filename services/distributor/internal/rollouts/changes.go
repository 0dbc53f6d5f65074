// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import "slices"

// maxChanges bounds the phrases about a rollout.
const maxChanges = 16

// Changes says what the rollout changes, as phrases for a person: "content", and those of
// [catalog.StagedSpec.Changes]. Members have few different specs, so each pair is compared once.
func (r *Record) Changes() []string {
	var all []string
	add := func(phrase string) {
		if !slices.Contains(all, phrase) {
			all = append(all, phrase)
		}
	}
	type pair struct{ from, to string }
	seen := map[pair]bool{}
	for i := range r.Run.Members {
		p := &r.Run.Members[i]
		names := pair{p.From, p.To}
		if p.From == p.To || seen[names] {
			continue
		}
		seen[names] = true
		from, to := r.Start.release(p.From), r.Start.release(p.To)
		for _, held := range to.Content {
			if was := find(from.Content, held.Source); was != nil && was.Snapshot.Digest != held.Snapshot.Digest {
				add("content")
			}
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
