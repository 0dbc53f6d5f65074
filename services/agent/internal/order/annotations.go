// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package order

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/leatdev/leat/internal/contract/renderstep"
)

// The annotations that Leat follows.
const (
	LeatPhase       = "leat.dev/phase"
	LeatWave        = "leat.dev/wave"
	LeatDeletion    = "leat.dev/hook-delete-policy"
	LeatSyncOptions = "leat.dev/sync-options"
	LeatRecreate    = "leat.dev/recreate"
	LeatUpdate      = renderstep.UpdateAnnotation

	ArgoHook        = "argocd.argoproj.io/hook"
	ArgoWave        = "argocd.argoproj.io/sync-wave"
	ArgoDeletion    = "argocd.argoproj.io/hook-delete-policy"
	ArgoSyncOptions = "argocd.argoproj.io/sync-options"

	HelmHook           = "helm.sh/hook"
	HelmWeight         = "helm.sh/hook-weight"
	HelmDeletion       = "helm.sh/hook-delete-policy"
	HelmResourcePolicy = "helm.sh/resource-policy"
	helmLogPolicy      = "helm.sh/hook-output-log-policy" // how Helm prints hooks; accepted and ignored
)

// directive is the place that an object's annotations request.
type directive struct {
	events   []event
	wave     int
	hook     bool
	deletion Deletion
}

// event is a phase, or a part of one.
type event struct {
	phase Phase // empty: the object is never applied
	when  occasion
}

// occasion restricts an event to first installations or to upgrades.
type occasion int

const (
	always occasion = iota
	installing
	upgrading
)

// phases returns the phases of the object, each once.
func (d directive) phases(first bool) []Phase {
	var all []Phase
	for _, e := range d.events {
		applies := e.phase != "" && (e.when == always || (e.when == installing) == first)
		if applies && !slices.Contains(all, e.phase) {
			all = append(all, e.phase)
		}
	}
	return all
}

// reader reads the annotations of one object.
type reader struct {
	object      *unstructured.Unstructured
	annotations map[string]string
}

func read(o *unstructured.Unstructured) (directive, error) {
	r := reader{object: o, annotations: o.GetAnnotations()}
	if err := r.checkUnknown(); err != nil {
		return directive{}, err
	}
	if _, err := Recreate(o); err != nil {
		return directive{}, err
	}
	d, err := r.place()
	if err != nil {
		return directive{}, err
	}
	return d, r.check(d)
}

// place reads phase, wave and deletion. It reads all annotations, also those that another dialect
// overrules. Otherwise an error in one of them would appear only after the other one was removed.
func (r reader) place() (d directive, err error) {
	var own, argo, helm []event
	if own, err = r.events(LeatPhase, r.leatEvent); err != nil {
		return d, err
	}
	if argo, err = r.events(ArgoHook, r.argoEvent); err != nil {
		return d, err
	}
	if helm, err = r.events(HelmHook, r.helmEvent); err != nil {
		return d, err
	}
	switch {
	case own != nil:
		d.events, d.hook = own, own[0].phase != Sync
	case argo != nil:
		d.events, d.hook = argo, true
	case helm != nil:
		d.events, d.hook = helm, helm[0].phase != Foundation
	}
	stated, err := r.wave(&d, d.hook && helm != nil)
	if err != nil {
		return d, err
	}
	if d.events == nil {
		d.events = []event{{phase: Sync}}
		if isFoundation(r.object) && !stated {
			d.events = []event{{phase: Foundation}}
		}
	}
	d.deletion, err = r.deletion(d.hook)
	return d, err
}

// events reads a list of phases in one dialect, or returns nil if the object does not have the
// annotation.
func (r reader) events(annotation string, parse func(string) (event, error)) ([]event, error) {
	text, ok := r.annotations[annotation]
	if !ok {
		return nil, nil
	}
	var all []event
	for word := range strings.SplitSeq(text, ",") {
		e, err := parse(strings.TrimSpace(word))
		if err != nil {
			return nil, err
		}
		if !slices.Contains(all, e) { // all has a few elements
			all = append(all, e)
		}
	}
	return all, nil
}

// wave reads the wave into d, and reports whether an annotation states one.
func (r reader) wave(d *directive, weighed bool) (stated bool, err error) {
	for _, annotation := range []string{HelmWeight, ArgoWave, LeatWave} { // later ones override
		text, ok := r.annotations[annotation]
		if !ok {
			continue
		}
		const bits = 32
		wave, err := strconv.ParseInt(strings.TrimSpace(text), 10, bits)
		if err != nil {
			return false, r.errorf(annotation, "is %q, want a whole number in quotes", text)
		}
		if annotation != HelmWeight || weighed {
			d.wave, stated = int(wave), true
		}
	}
	return stated, nil
}

func (r reader) deletion(hook bool) (d Deletion, err error) {
	d = BeforeCreation // in every dialect, without an annotation
	for _, policy := range []struct {
		annotation string
		words      []string
	}{
		{HelmDeletion, []string{"before-hook-creation", "hook-succeeded", "hook-failed"}}, // later ones override
		{ArgoDeletion, []string{"BeforeHookCreation", "HookSucceeded", "HookFailed"}},
		{LeatDeletion, []string{"BeforeHookCreation", "HookSucceeded", "HookFailed"}},
	} {
		text, ok := r.annotations[policy.annotation]
		if !ok {
			continue
		}
		d = 0
		for word := range strings.SplitSeq(text, ",") {
			i := slices.Index(policy.words, strings.TrimSpace(word))
			if i < 0 {
				return 0, r.errorf(policy.annotation, "holds %q, want %s", strings.TrimSpace(word), strings.Join(policy.words, ", "))
			}
			d |= 1 << i
		}
	}
	if !hook {
		d = 0
	}
	return d, nil
}

// check finds annotations that contradict each other.
func (r reader) check(d directive) error {
	if _, ok := r.annotations[LeatDeletion]; ok && !d.hook {
		return r.errorf(LeatDeletion, "is on an object that is not a hook; add %s", LeatPhase)
	}
	if err := r.checkUpdate(d); err != nil {
		return err
	}
	if r.object.GetName() == "" && !d.hook {
		return errorf("%s has generateName, which is allowed only for hooks: "+
			"want metadata.name, because the object is applied again and again", name(r.object))
	}
	return nil
}

// checkUpdate checks the annotation about changes of an object that exists.
func (r reader) checkUpdate(d directive) error {
	word, ok := r.annotations[LeatUpdate]
	switch {
	case ok && word != renderstep.UpdateEnabled && word != renderstep.UpdateDisabled:
		return r.errorf(LeatUpdate, "is %q, want %s or %s", word, renderstep.UpdateEnabled, renderstep.UpdateDisabled)
	case ok && d.hook:
		return r.errorf(LeatUpdate, "is on a hook, which is created for each sync; remove it")
	}
	return nil
}

// checkUnknown returns an error for an unknown annotation with a prefix of this package: most of
// them are misspelt.
func (r reader) checkUnknown() error {
	for _, annotation := range slices.Sorted(maps.Keys(r.annotations)) {
		ours := slices.ContainsFunc([]string{
			"leat.dev/phase", "leat.dev/wave", "leat.dev/hook", "leat.dev/sync", "leat.dev/recreate", "leat.dev/update",
			ArgoHook, "argocd.argoproj.io/sync-", HelmHook,
		}, func(prefix string) bool { return strings.HasPrefix(annotation, prefix) })
		if ours && !slices.Contains([]string{
			LeatPhase, LeatWave, LeatDeletion, LeatSyncOptions, LeatRecreate, LeatUpdate,
			ArgoHook, ArgoWave, ArgoDeletion, ArgoSyncOptions,
			HelmHook, HelmWeight, HelmDeletion, helmLogPolicy,
		}, annotation) {
			return r.errorf(annotation, "is unknown")
		}
	}
	return nil
}

func (r reader) errorf(annotation, format string, args ...any) error {
	return errorf("%s: annotation %s "+format, append([]any{name(r.object), annotation}, args...)...)
}
