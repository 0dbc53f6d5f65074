// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package flux

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/leatdev/leat/cli/internal/migration"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
)

const (
	// defaultPoll is how often gitcache polls a repository that says nothing, and leastPoll the least that it takes.
	defaultPoll, leastPoll = 2 * time.Minute, 5 * time.Second
	// maxPatterns bounds the patterns of a source at the hub.
	maxPatterns = 100
	// chartMedia is the media type of the layer of a chart.
	chartMedia = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// source is what a source of Flux delivers.
type source struct {
	object *object
	kind   string
	// repository is the document. Nil: the object is not imported, or each chart of its registry is a repository.
	repository *fleetv1.Document
	// registry is the URL of an OCI registry of charts, without the chart.
	registry         string
	ref              *typev1.GitRef
	exclude, folders []string
	layer            *typev1.ArtifactLayer
	isSuspended      bool
	poll             time.Duration
	// missing says why nothing can be delivered from it. Empty: it can.
	missing string
}

// of returns what a service of Leat takes from the source.
func (s *source) of() *typev1.Source {
	return &typev1.Source{
		Repository: s.repository.GetRepository().GetMetadata().GetName(), Ref: s.ref, Exclude: s.exclude, Layer: s.layer,
	}
}

// bytes is the size of what each service copies from the source.
func (s *source) bytes() (total int) {
	for _, texts := range [][]string{s.exclude, s.folders} {
		for _, text := range texts {
			total += len(text)
		}
	}
	return total
}

// readGit reads a GitRepository.
func (t *translation) readGit(o *object) {
	f, s := o.spec, &source{kind: kindGit}
	t.repository(o, s, f.Text("url"), (*migration.Repositories).Git)
	s.ref = gitRef(f.Part("ref"))
	s.exclude = excluded(f)
	s.folders = f.Texts("sparseCheckout")
	if len(s.folders) > maxPatterns {
		f.Note("sparseCheckout", migration.Missing, "has more folders than a source of Leat takes")
		s.folders = nil
	}
	f.Skip("gitImplementation")
	when(f, "recurseSubmodules", migration.Needless, "Leat delivers submodules wherever a source selects them")
	f.Without(migration.Missing, "add a source of the other repository to each service, with a mount", "include")
}

// gitRef returns what a GitRepository follows.
func gitRef(f *migration.Fields) *typev1.GitRef {
	branch, tag, semver, name, commit := f.Text("branch"), f.Text("tag"), f.Text("semver"), f.Text("name"), f.Text("commit")
	switch {
	case commit != "":
		return &typev1.GitRef{Selector: &typev1.GitRef_Commit{Commit: strings.ToLower(commit)}}
	case name != "":
		return &typev1.GitRef{Selector: &typev1.GitRef_Name{Name: name}}
	case semver != "":
		return &typev1.GitRef{Selector: &typev1.GitRef_Semver{Semver: semver}}
	case tag != "":
		return &typev1.GitRef{Selector: &typev1.GitRef_Tag{Tag: tag}}
	}
	return &typev1.GitRef{Selector: &typev1.GitRef_Branch{Branch: cmp.Or(branch, "master")}}
}

// readHelm reads a HelmRepository: an index of charts, or a registry.
func (t *translation) readHelm(o *object) {
	f, s := o.spec, &source{kind: kindHelm}
	address, insecure := f.Text("url"), flag(f, "insecure")
	if f.Text("type") == "oci" || strings.HasPrefix(address, "oci://") {
		s.registry = registry(strings.TrimRight(address, "/"), insecure)
		t.access(o, s, f, "the repository of each chart")
	} else {
		t.repository(o, s, address, (*migration.Repositories).Helm)
	}
	when(f, "passCredentials", migration.Differs, "Leat sends no credential to archives at other hosts")
}

// registry returns the URL of a registry in Leat's form.
func registry(address string, insecure bool) string {
	rest := strings.TrimPrefix(strings.TrimSpace(address), "oci://")
	if insecure {
		return "oci+http://" + rest
	}
	return "oci://" + rest
}

// inRegistry returns the document of one name in a registry.
func inRegistry(r *migration.Repositories, address string) *fleetv1.Document {
	rest, isPlain := strings.CutPrefix(address, "oci+http://")
	d := r.OCI(rest)
	if isPlain {
		spec := d.GetRepository().GetSpec()
		spec.Url = "oci+http://" + strings.TrimPrefix(strings.TrimPrefix(spec.GetUrl(), "oci+http://"), "oci://")
	}
	return d
}

// accept returns the document of a repository, or why the hub would refuse it.
func (t *translation) accept(address string, of func(*migration.Repositories, string) *fleetv1.Document) (*fleetv1.Document, string) {
	if err := migration.Validate(of(migration.NewRepositories(""), address)); err != nil {
		return nil, "the hub refuses its repository: " + err.Error()
	}
	return of(t.repositories, address), ""
}

// readOCI reads an OCIRepository.
func (t *translation) readOCI(o *object) {
	f, s := o.spec, &source{kind: kindOCI}
	t.repository(o, s, registry(f.Text("url"), flag(f, "insecure")), inRegistry)
	ref := f.Part("ref")
	tag, semver, digest := ref.Text("tag"), ref.Text("semver"), ref.Text("digest")
	ref.Without(migration.Missing, "Leat does not filter the tags that a range selects from", "semverFilter")
	switch {
	case digest != "":
		s.ref = &typev1.GitRef{Selector: &typev1.GitRef_Commit{Commit: strings.TrimPrefix(digest, "sha256:")}}
	case semver != "":
		s.ref = &typev1.GitRef{Selector: &typev1.GitRef_Semver{Semver: semver}}
	default:
		s.ref = &typev1.GitRef{Selector: &typev1.GitRef_Tag{Tag: cmp.Or(tag, "latest")}}
	}
	s.exclude = excluded(f)
	layer := f.Part("layerSelector")
	// Whether Flux unpacks the layer at once or hands it on, what reads it finds the same files.
	layer.Skip("operation")
	if media := layer.Text("mediaType"); media != "" && media != chartMedia {
		s.layer = &typev1.ArtifactLayer{MediaType: media}
	}
}

// repository makes the document of a source, unless the hub would refuse it.
func (t *translation) repository(o *object, s *source, address string, of func(*migration.Repositories, string) *fleetv1.Document) {
	s.repository, s.missing = t.accept(address, of)
	if s.repository == nil {
		o.drop(migration.Refused, s.missing)
	} else {
		o.add(s.repository)
	}
	t.access(o, s, o.spec, migration.ID(s.repository))
}

// access notes what the import does not read about how a source is reached. Where names the repository.
func (t *translation) access(o *object, s *source, f *migration.Fields, where string) {
	o.source, s.object = s, o
	if migration.HasCredential(f.Text("url")) {
		f.Note("url", migration.Check, "holds a credential, which Leat refuses in URLs; set spec.credential of "+where)
	}
	f.Without(migration.Check, "set spec.credential of "+where+"; the import reads no Secrets", "secretRef")
	f.Without(migration.Check, "set spec.credential of "+where+"; Leat uses no accounts of the cluster there", "serviceAccountName")
	f.Without(migration.Check, "set spec.caPem of "+where+", and the clientCertificate of spec.credential if the server asks for one", "certSecretRef")
	f.Without(migration.Check, "set spec.proxyUrl of "+where, "proxySecretRef")
	f.Without(migration.Check, "set spec.verification of "+where+"; until then it delivers unsigned content", "verify")
	f.Without(migration.Differs, "projects decide who may use a repository", "accessFrom")
	f.Without(migration.Needless, "gitcache bounds each fetch itself", "timeout")
	switch provider := f.Text("provider"); {
	case provider == "" || provider == "generic":
	case s.kind == kindGit && provider == "github":
		f.Note("provider", migration.Check, "set spec.credential.githubApp of "+where)
	case s.kind == kindGit:
		f.Note("provider", migration.Check, "set spec.credential of "+where+"; Leat has no identity at clouds for Git")
	default:
		f.Note("provider", migration.Check, "set spec.credential.workloadIdentity of "+where)
	}
	s.isSuspended = flag(f, "suspend")
	if interval, err := time.ParseDuration(f.Text("interval")); err == nil && interval > 0 && interval < defaultPoll {
		s.poll = max(interval, leastPoll)
	}
}

// excluded returns the patterns of files that a source leaves out.
func excluded(f *migration.Fields) []string {
	var patterns []string
	for line := range strings.Lines(f.Text("ignore")) {
		if line = strings.TrimRight(line, "\r\n"); strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "#") {
			patterns = append(patterns, line)
		}
	}
	switch {
	case len(patterns) > maxPatterns:
		f.Note("ignore", migration.Missing, fmt.Sprintf("has more than %d patterns; write them into a file .leatignore of the repository", maxPatterns))
		return nil
	case patterns != nil:
		f.Note("ignore", migration.Differs, "is in the exclude of each source; Leat reads .leatignore in the repository, and not .sourceignore")
	}
	return patterns
}

// patched is said of an object without what every whole one has.
const patched = "; if it is a patch, import what kustomize makes of its folder"

// sourceOf returns the source that a sourceRef or a chartRef names, or why nothing can be taken from it.
func (t *translation) sourceOf(f *migration.Fields, namespace string) (*object, string) {
	f.Skip("apiVersion")
	kind, name := f.Text("kind"), f.Text("name")
	namespace = cmp.Or(f.Text("namespace"), namespace)
	what := strings.TrimSpace(kind + " " + strings.TrimPrefix(namespace+"/"+name, "/"))
	switch kind {
	case kindGit, kindHelm, kindOCI, kindChart:
	case "Bucket", "ExternalArtifact":
		return nil, "it takes its content from " + what + ", and Leat reads Git, Helm and OCI repositories only"
	case "":
		return nil, "it names no source" + patched
	default:
		return nil, "it names no source of a kind that the import knows"
	}
	o := t.find(kind, namespace, name)
	switch {
	case o == nil:
		return nil, what + " is not among the objects; import it together with this one"
	case o.source != nil && o.source.missing != "":
		return nil, what + " is not imported: " + o.source.missing
	}
	return o, ""
}

// settle gives repositories what all their sources agree on, and says what became of objects that others name.
func (t *translation) settle() {
	awake := map[*fleetv1.Document]bool{}
	t.each(func(o *object) {
		for _, d := range o.documents {
			awake[d] = awake[d] || !o.source.isSuspended
			spec := d.GetRepository().GetSpec()
			if now := spec.GetPollInterval(); o.source.poll > 0 && (now == nil || o.source.poll < now.AsDuration()) {
				spec.PollInterval = durationpb.New(o.source.poll)
			}
		}
		if o.source.registry != "" && o.documents == nil {
			o.drop(migration.Refused, "no HelmRelease names a chart of it, and each chart of a registry is a repository of Leat")
		}
	}, kindGit, kindHelm, kindOCI)
	t.each(func(o *object) {
		if !o.source.isSuspended || o.documents == nil {
			return
		}
		for _, d := range o.documents {
			d.GetRepository().GetSpec().Suspended = !awake[d]
		}
		if awake[o.documents[0]] {
			o.spec.Note("suspend", migration.Differs, "another source of the same URL is not suspended, so the repository is not")
			return
		}
		o.spec.Note("suspend", migration.Check, "a repository that is suspended from its start fetches nothing; its services wait until suspended is taken away")
	}, kindGit, kindHelm, kindOCI)
	t.each(func(o *object) {
		switch by := o.Labels[helmGroup+"/name"]; {
		case o.documents != nil:
		case by != "":
			o.drop(migration.Needless, "Flux made it for HelmRelease "+by)
		case !o.isUsed:
			o.drop(migration.Needless, "no HelmRelease names it, and a chart alone delivers nothing")
		default:
			o.drop(migration.Refused, "no HelmRelease that names it is imported")
		}
	}, kindChart)
	t.each(func(o *object) {
		o.Fields.Skip("immutable", "binaryData")
		if o.documents == nil {
			o.drop(migration.Needless, "nothing that is imported takes values from it")
			return
		}
		o.Fields.Note("data", migration.Check, "the values were copied; a change of the ConfigMap changes no service")
	}, kindConfigMap)
}

// flag returns whether a field is true.
func flag(f *migration.Fields, name string) bool {
	value, _ := f.Bool(name)
	return value
}

// when notes a field that is true.
func when(f *migration.Fields, name string, grade migration.Grade, reason string) {
	if flag(f, name) {
		f.Note(name, grade, reason)
	}
}
