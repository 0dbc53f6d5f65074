// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package localkube

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// BuildParams describes what to build and where to keep it.
type BuildParams struct {
	SourceDir string            // tools/kube of a checkout; empty means what FindSource finds from the working directory
	CacheDir  string            // empty means leat/kube in the user's cache folder
	Only      []string          // the names of the files to build; empty means all that a control plane needs
	Helm      bool              // also build Helm, which no control plane needs
	Kustomize bool              // also build kustomize, which no control plane needs
	GoCommand string            // empty means "go" on the PATH
	Progress  func(line string) // called with short lines of progress; may be nil
}

// Binaries are the absolute paths of the files that a control plane consists of, as returned by
// Build.
type Binaries struct {
	Etcd              string
	APIServer         string
	ControllerManager string
	Scheduler         string
	Kwok              string
	Kubectl           string // not used by Start; of the API server's version, for people
	Helm              string // not used by Start; empty unless BuildParams.Helm asked for it
	Kustomize         string // not used by Start; empty unless BuildParams.Kustomize asked for it
}

// The names of the files that a control plane consists of, in the order in which Build makes them:
// a start needs the first two before all others.
const (
	EtcdFile              = "etcd"
	APIServerFile         = "kube-apiserver"
	ControllerManagerFile = "kube-controller-manager"
	SchedulerFile         = "kube-scheduler"
	KwokFile              = "kwok"
	KubectlFile           = "kubectl"
)

// Path returns the field that holds the path of the file with this name. It is nil for the name of
// another file.
func (b *Binaries) Path(name string) *string {
	switch name {
	case EtcdFile:
		return &b.Etcd
	case APIServerFile:
		return &b.APIServer
	case ControllerManagerFile:
		return &b.ControllerManager
	case SchedulerFile:
		return &b.Scheduler
	case KwokFile:
		return &b.Kwok
	case KubectlFile:
		return &b.Kubectl
	default:
		return nil
	}
}

// InFolder returns the paths of the files in a folder that has them under their names.
func InFolder(dir string) (b Binaries) {
	for _, name := range []string{EtcdFile, APIServerFile, ControllerManagerFile, SchedulerFile, KwokFile, KubectlFile} {
		*b.Path(name) = filepath.Join(dir, name)
	}
	return b
}

// target is one file that Build makes.
type target struct {
	name      string        // its name in the cache and in progress lines
	module    string        // the module under the source folder that pins it
	component string        // the Go module whose version it carries
	source    string        // the Go package to compile
	cold      time.Duration // CPU time with empty build caches, measured
	place     *string       // its path in the Binaries that Build returns

	// plan fills these.
	pin  pin
	path string // where it is once it is built
}

// built reports whether t is in the cache. Files are moved there by renaming them, so a file that
// exists is complete.
func (t target) built() bool {
	info, err := os.Stat(t.path)
	return err == nil && info.Mode().IsRegular()
}

// targets lists what a control plane needs, and the programs that p requests, in build order.
func targets(p BuildParams, b *Binaries) []target {
	const (
		helm      = "helm.sh/helm/v4"
		kustomize = "sigs.k8s.io/kustomize/kustomize/v5"
		etcd      = "go.etcd.io/etcd/server/v3"
		kwok      = "sigs.k8s.io/kwok"
	)
	kubernetes := func(name string, cold time.Duration) target {
		const component = "k8s.io/kubernetes"
		return target{name: name, module: "kubernetes", component: component, source: component + "/cmd/" + name, cold: cold}
	}
	needed := []target{
		{name: EtcdFile, module: "etcd", component: etcd, source: etcd, cold: 70 * time.Second},
		kubernetes(APIServerFile, 380*time.Second),
		kubernetes(ControllerManagerFile, 100*time.Second),
		kubernetes(SchedulerFile, 10*time.Second),
		{name: KwokFile, module: "kwok", component: kwok, source: kwok + "/cmd/kwok", cold: 120 * time.Second},
		kubernetes(KubectlFile, 40*time.Second),
	}
	if len(p.Only) > 0 {
		needed = slices.DeleteFunc(needed, func(t target) bool { return !slices.Contains(p.Only, t.name) })
	}
	for i := range needed {
		needed[i].place = b.Path(needed[i].name)
	}
	if p.Helm {
		needed = append(needed, target{name: "helm", module: "helm", component: helm, source: helm + "/cmd/helm", cold: 150 * time.Second, place: &b.Helm})
	}
	if p.Kustomize {
		needed = append(needed, target{name: "kustomize", module: "kustomize", component: kustomize, source: kustomize, cold: 40 * time.Second, place: &b.Kustomize})
	}
	return needed
}

// plan reads the pins below sourceDir, decides where each target belongs, and enters that into b.
func plan(p BuildParams, sourceDir, cacheDir string, b *Binaries) ([]target, error) {
	planned := targets(p, b)
	for i := range planned {
		t := &planned[i]
		var err error
		if t.pin, err = readPin(filepath.Join(sourceDir, t.module), t.component); err != nil {
			return nil, err
		}
		t.path = filepath.Join(cacheDir, t.module, t.pin.version+"-"+t.cacheKey(), t.name)
		*t.place = t.path
	}
	return planned, nil
}

// cacheKey covers everything that determines the bytes of a target except the Go toolchain: a patch
// release of Go does not justify minutes of building. The names of the stages determine nothing; they
// are in the key because they were in that of 0.1.0, whose builds are used further.
func (t target) cacheKey() string {
	h := sha256.New()
	h.Write(t.pin.sums)
	fmt.Fprintf(h, "\n%s/%s\n%s\n%s\n", runtime.GOOS, runtime.GOARCH, t.linkFlags(), strings.Join(stageFiles(), "\n"))
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// linkFlags strips symbol tables (a third of the size), and sets Kubernetes' version, as its own
// build scripts would. Without it /version reports v0.0.0-master, and clients that compare versions
// refuse to work.
func (t target) linkFlags() string {
	const strip = "-s -w"
	if t.module != "kubernetes" {
		return strip
	}
	const prefix = " -X k8s.io/component-base/version."
	version := t.pin.version
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	return strip +
		prefix + "gitVersion=" + version +
		prefix + "gitMajor=" + major +
		prefix + "gitMinor=" + minor +
		prefix + "gitTreeState=clean" +
		prefix + "gitCommit=0" +
		prefix + "buildDate=1970-01-01T00:00:00Z"
}
