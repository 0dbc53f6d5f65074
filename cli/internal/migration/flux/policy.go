// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package flux

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/leatdev/leat/cli/internal/migration"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/syncpolicy/policywire"
)

// The hub's limits of policies.
const (
	maxWait  = 24 * time.Hour
	maxRules = 64
)

// secretName is the name of a Secret or a ConfigMap, which may stand in a command.
var secretName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

// cluster returns the cluster that an object delivers to, or why it is not known.
func (t *translation) cluster(o *object) (reference, reason string) {
	f := o.spec.Part("kubeConfig")
	if !o.spec.Has("kubeConfig") {
		reference, isKnown := t.settings.ClusterOf("")
		if !isKnown {
			return "", "say with --cluster NAME in which cluster Flux runs"
		}
		return reference, ""
	}
	secret := f.Part("secretRef")
	secret.Skip("key")
	name := cmp.Or(secret.Text("name"), f.Part("configMapRef").Text("name"))
	reference = cmp.Or(t.settings.Clusters[o.Namespace+"/"+name], t.settings.Clusters[name])
	switch {
	case reference != "":
		return reference, ""
	case !secretName.MatchString(name):
		return "", "its kubeConfig names no Secret and no ConfigMap"
	}
	return "", "say with --map-cluster " + name + "=CLUSTER to which cluster it delivers"
}

// common sets what services of Kustomizations and of HelmReleases have in common.
func (t *translation) common(o *object, spec *fleetv1.ServiceSpec) {
	f := o.spec
	spec.Sync = &fleetv1.SyncOptions{HealthTimeout: duration(f, "timeout")}
	spec.Paused = flag(f, "suspend")
	spec.Policy = &typev1.SyncPolicy{HealthRules: healthRules(f)}
	if account := f.Text("serviceAccountName"); account != "" {
		spec.Policy.ServiceAccount = strings.TrimPrefix(o.Namespace+"/"+account, "/")
	}
	f.Skip("dependsOn") // see depend
}

// finish makes a document that of an object, unless the hub would refuse it.
func (t *translation) finish(o *object, d *fleetv1.Document) {
	spec := d.GetService().GetSpec()
	if isZero(spec.GetPolicy()) {
		spec.Policy = nil
	}
	if isZero(spec.GetSync()) {
		spec.Sync = nil
	}
	if err := migration.Validate(d); err != nil {
		o.drop(migration.Refused, "the hub refuses its service: "+err.Error())
		return
	}
	o.service = d
	o.add(d)
	for _, from := range o.takes {
		from.add(d)
	}
}

// depend sets the services that a service waits for, when all services have their names.
func (t *translation) depend(o *object) {
	spec := o.service.GetService().GetSpec()
	var all []*typev1.Dependency
	for _, f := range o.spec.Parts("dependsOn") {
		name, namespace := f.Text("name"), cmp.Or(f.Text("namespace"), o.Namespace)
		on := t.find(o.Kind, namespace, name)
		what := o.Kind + " " + strings.TrimPrefix(namespace+"/"+name, "/")
		switch {
		case on == nil || on.service == nil:
			f.Note("name", migration.Missing, what+" is not imported, so the service does not wait for it")
		case on == o:
			f.Note("name", migration.Missing, "is the object itself")
		case on.service.GetService().GetSpec().GetCluster() != spec.GetCluster():
			f.Note("name", migration.Missing, what+" delivers to another cluster; order clusters by a rollout policy")
		case len(all) == maxRules:
			f.Note("name", migration.Missing, fmt.Sprintf("a service waits for at most %d others", maxRules))
		default:
			all = append(all, &typev1.Dependency{Service: on.service.GetService().GetMetadata().GetName()})
		}
		f.Without(migration.Differs, "the service waits until the other is healthy, whatever the expression says", "readyExpr")
	}
	if all == nil {
		return
	}
	if spec.Policy == nil {
		spec.Policy = &typev1.SyncPolicy{}
	}
	spec.Policy.DependsOn = all
	if err := migration.Validate(o.service); err != nil {
		spec.Policy.DependsOn = nil
		o.spec.Note("dependsOn", migration.Missing, "the hub refuses the service with it: "+err.Error())
	}
}

// duration returns a span of time that the hub takes.
func duration(f *migration.Fields, name string) *durationpb.Duration {
	text := f.Text(name)
	if text == "" {
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > maxWait {
		f.Note(name, migration.Missing, fmt.Sprintf("is not a duration of at most %d hours, so Leat's default counts", int(maxWait.Hours())))
		return nil
	}
	return durationpb.New(d)
}

// ignoreRules returns the fields that are left to others.
func ignoreRules(f *migration.Fields) []*typev1.IgnoreRule {
	var rules []*typev1.IgnoreRule
	for _, part := range f.Parts("ignore") {
		rule := &typev1.IgnoreRule{Pointers: part.Texts("paths")}
		target := part.Part("target")
		isSame := true
		pattern := func(name string) string {
			text, isPattern := wildcard(target.Text(name))
			isSame = isSame && isPattern
			return text
		}
		objects := &typev1.ObjectSelector{
			Group: pattern("group"), Kind: pattern("kind"), Namespace: pattern("namespace"), Name: pattern("name"), Labels: target.Text("labelSelector"),
		}
		target.Skip("version") // Leat compares in the version that the manifest names
		if !isZero(objects) {
			rule.Objects = objects
		}
		if target.Has("annotationSelector") {
			target.Skip("annotationSelector")
			isSame = false
		}
		err := allowed(&typev1.SyncPolicy{Ignore: []*typev1.IgnoreRule{rule}})
		switch {
		case !isSame:
			part.Note("target", migration.Missing, "Leat selects objects by * and ?, and not by regular expressions or annotations; write a rule into spec.policy.ignore")
		case err != nil:
			part.Note("paths", migration.Missing, "Leat cannot ignore them: "+err.Error())
		case len(rules) == maxRules:
			part.Note("", migration.Missing, fmt.Sprintf("a service has at most %d rules", maxRules))
		default:
			rules = append(rules, rule)
		}
	}
	return rules
}

// wildcard returns the pattern with wildcards that means the same as a regular expression, if there is one.
func wildcard(expression string) (pattern string, isSame bool) {
	parts := strings.Split(strings.TrimSuffix(strings.TrimPrefix(expression, "^"), "$"), ".*")
	for _, part := range parts {
		if strings.ContainsAny(part, `\^$|?+*()[]{}`) {
			return "", false
		}
	}
	return strings.Join(parts, "*"), true
}

// healthRules returns how objects of some kinds are judged.
func healthRules(f *migration.Fields) []*typev1.HealthRule {
	var rules []*typev1.HealthRule
	for _, part := range f.Parts("healthCheckExprs") {
		version, kind := part.Text("apiVersion"), part.Text("kind")
		current, failed, progress := part.Text("current"), part.Text("failed"), part.Text("inProgress")
		group, _, isGroup := strings.Cut(version, "/")
		if !isGroup {
			group = "core"
		}
		rule := &typev1.HealthRule{Group: group, Kind: kind, Healthy: overSelf(current), Progressing: overSelf(progress), Degraded: overSelf(failed)}
		if progress != "" && failed != "" { // Flux asks first whether it is in progress
			rule.Degraded = "!(" + rule.GetProgressing() + ") && (" + rule.GetDegraded() + ")"
		}
		switch err := allowed(&typev1.SyncPolicy{HealthRules: []*typev1.HealthRule{rule}}); {
		case err != nil:
			part.Note("", migration.Differs, "write it as a rule of spec.policy.healthRules, over self; Leat refuses it as it is: "+err.Error())
		case len(rules) == maxRules:
			part.Note("", migration.Differs, fmt.Sprintf("a service has at most %d rules", maxRules))
		default:
			rules = append(rules, rule)
		}
	}
	return rules
}

// topLevel matches the fields of an object that Flux's expressions name without the object, as far as most kinds have them.
var topLevel = regexp.MustCompile(`\b(apiVersion|kind|metadata|spec|status|data)\b`)

// overSelf returns an expression of Flux, which sees the fields of an object, as one of Leat, which sees the object.
func overSelf(expression string) string {
	if expression == "" {
		return ""
	}
	fields := topLevel.FindAllString(expression, -1)
	slices.Sort(fields)
	for _, field := range slices.Compact(fields) {
		expression = "cel.bind(" + field + ", self.?" + field + ".orValue({}), " + expression + ")"
	}
	return expression
}

// allowed returns an error about a policy that the hub would refuse.
func allowed(p *typev1.SyncPolicy) error {
	policy, err := policywire.Policy(p)
	return cmp.Or(err, policy.Validate(""))
}

// isZero reports whether a message says nothing.
func isZero(m proto.Message) bool { return proto.Size(m) == 0 }
