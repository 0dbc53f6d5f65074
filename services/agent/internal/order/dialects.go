// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package order

import (
	"slices"
	"strings"
)

// leatEvent reads Leat's phase. An object has only one: manifests repeat an object that runs in
// several phases.
func (r reader) leatEvent(word string) (event, error) {
	all := []Phase{PreSync, Sync, PostSync, SyncFail, Test, PreDelete, PostDelete}
	if strings.Contains(r.annotations[LeatPhase], ",") || !slices.Contains(all, Phase(word)) {
		return event{}, r.errorf(LeatPhase, "is %q, want one of %s", r.annotations[LeatPhase], list(all))
	}
	return event{phase: Phase(word)}, nil
}

// argoEvent reads one hook of Argo CD.
func (r reader) argoEvent(word string) (event, error) {
	all := []Phase{PreSync, Sync, PostSync, SyncFail, PreDelete, PostDelete}
	switch {
	case word == "Skip" && strings.TrimSpace(r.annotations[ArgoHook]) == word:
		return event{}, nil
	case word == "Skip":
		return event{}, r.errorf(ArgoHook, "is %q: a skipped object has no other phase", r.annotations[ArgoHook])
	case !slices.Contains(all, Phase(word)):
		return event{}, r.errorf(ArgoHook, "holds %q, want Skip, %s", word, list(all))
	}
	return event{phase: Phase(word)}, nil
}

// helmEvent reads one hook of Helm. Rollback hooks never run, because a return to an earlier commit
// is a sync like any other.
func (r reader) helmEvent(word string) (event, error) {
	events := map[string]event{
		"pre-install": {PreSync, installing}, "post-install": {PostSync, installing},
		"pre-upgrade": {PreSync, upgrading}, "post-upgrade": {PostSync, upgrading},
		"pre-delete": {phase: PreDelete}, "post-delete": {phase: PostDelete},
		"pre-rollback": {}, "post-rollback": {},
		"test": {phase: Test}, "test-success": {phase: Test},
		"crd-install": {phase: Foundation},
	}
	e, ok := events[word]
	switch {
	case !ok:
		return event{}, r.errorf(HelmHook, "holds %q, want pre-install, post-install, pre-upgrade, post-upgrade, pre-delete, post-delete, "+
			"pre-rollback, post-rollback, test or crd-install", word)
	case e.phase == Foundation && (strings.TrimSpace(r.annotations[HelmHook]) != word || rankOf(r.object) != foundation):
		return event{}, r.errorf(HelmHook, "is %q: crd-install is for definitions, and excludes other hooks", r.annotations[HelmHook])
	}
	return e, nil
}

func list(phases []Phase) string {
	var words []string
	for _, p := range phases {
		words = append(words, string(p))
	}
	return strings.Join(words, ", ")
}
