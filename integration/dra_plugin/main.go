// A DRA driver for the tests, on the helper that upstream gives to authors of drivers (k8s.io/dynamic-resource-allocation/kubeletplugin): it
// publishes devices, and prepares claims by writing CDI files. Files in its directory say what fails and how its devices are.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	resource "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

var (
	name       = flag.String("name", "", "name of the driver")
	node       = flag.String("node", "", "name of the node")
	kubeconfig = flag.String("kubeconfig", "", "credentials for the API server")
	root       = flag.String("root", "", "the kubelet's directory")
	work       = flag.String("work", "", "directory of files that say what to do: fail-prepare, fail-unprepare, health")
	cdi        = flag.String("cdi", "/var/run/cdi", "directory of CDI files")
	devices    = flag.Int("devices", 4, "number of devices")
	beta       = flag.Bool("beta", false, "serve v1beta1 only")
)

type driver struct{}

// fails says whether a file says so.
func fails(operation string) error {
	text, err := os.ReadFile(filepath.Join(*work, "fail-"+operation))
	if err != nil {
		return nil
	}
	return errors.New(strings.TrimSpace(string(text)))
}

func cdiFile(uid types.UID) string {
	return filepath.Join(*cdi, fmt.Sprintf("%s-%s.json", *name, uid))
}

// prepare writes the CDI file of a claim: each device is a variable of the container.
func prepare(claim *resource.ResourceClaim) ([]kubeletplugin.Device, error) {
	if err := fails("prepare"); err != nil {
		return nil, err
	}
	var prepared []kubeletplugin.Device
	var edits []map[string]any
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver != *name {
			continue
		}
		id := fmt.Sprintf("%s-%s", claim.UID, result.Device)
		variable := "DRA_" + strings.ToUpper(strings.ReplaceAll(result.Device, "-", "_"))
		edits = append(edits, map[string]any{
			"name":           id,
			"containerEdits": map[string]any{"env": []string{variable + "=" + result.Request}},
		})
		prepared = append(prepared, kubeletplugin.Device{
			Requests:     []string{result.Request},
			PoolName:     result.Pool,
			DeviceName:   result.Device,
			CDIDeviceIDs: []string{fmt.Sprintf("%s/device=%s", *name, id)},
			ShareID:      result.ShareID,
		})
	}
	spec, err := json.Marshal(map[string]any{"cdiVersion": "0.5.0", "kind": *name + "/device", "devices": edits})
	if err != nil {
		return nil, err
	}
	// Renamed, so that a runtime never reads a part.
	part := cdiFile(claim.UID) + ".part"
	if err := os.WriteFile(part, spec, 0o644); err != nil {
		return nil, err
	}
	return prepared, os.Rename(part, cdiFile(claim.UID))
}

func (driver) PrepareResourceClaims(
	_ context.Context, claims []*resource.ResourceClaim,
) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		prepared, err := prepare(claim)
		log.Printf("prepare %s: %v", claim.UID, err)
		results[claim.UID] = kubeletplugin.PrepareResult{Devices: prepared, Err: err}
	}
	return results, nil
}

func (driver) UnprepareResourceClaims(
	_ context.Context, claims []kubeletplugin.NamespacedObject,
) (map[types.UID]error, error) {
	results := map[types.UID]error{}
	for _, claim := range claims {
		err := fails("unprepare")
		if err == nil {
			if err = os.Remove(cdiFile(claim.UID)); errors.Is(err, os.ErrNotExist) {
				err = nil
			}
		}
		log.Printf("unprepare %s: %v", claim.UID, err)
		results[claim.UID] = err
	}
	return results, nil
}

func (driver) HandleError(_ context.Context, err error, message string) { log.Printf("%s: %v", message, err) }

func deviceName(number int) string { return fmt.Sprintf("device-%d", number) }

// WatchHealthStatus reports what the file says, as HEALTH or HEALTH MESSAGE, whenever it changes and often enough that it does not expire.
func (driver) WatchHealthStatus(ctx context.Context, reports chan<- kubeletplugin.DeviceHealthReport) error {
	var said string
	for tick := 0; ; tick++ {
		text, err := os.ReadFile(filepath.Join(*work, "health"))
		if err == nil && (string(text) != said || tick%100 == 0) {
			said = string(text)
			health, message, _ := strings.Cut(strings.TrimSpace(said), " ")
			var report kubeletplugin.DeviceHealthReport
			for number := range *devices {
				report.Devices = append(report.Devices, kubeletplugin.DeviceHealth{
					PoolName: *node, DeviceName: deviceName(number), Health: kubeletplugin.HealthStatus(health), Message: message,
					LastUpdated: time.Now(),
				})
			}
			select {
			case <-ctx.Done():
				return nil
			case reports <- report:
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	data := filepath.Join(*root, "plugins", *name)
	for _, directory := range []string{data, *cdi, *work} {
		if err := os.MkdirAll(directory, 0o755); err != nil {
			log.Fatal(err)
		}
	}
	helper, err := kubeletplugin.Start(ctx, driver{},
		kubeletplugin.DriverName(*name),
		kubeletplugin.KubeClient(kubernetes.NewForConfigOrDie(config)),
		kubeletplugin.NodeName(*node),
		kubeletplugin.RegistrarDirectoryPath(filepath.Join(*root, "plugins_registry")),
		kubeletplugin.PluginDataDirectoryPath(data),
		kubeletplugin.NodeV1(!*beta),
	)
	if err != nil {
		log.Fatal(err)
	}
	var slice resourceslice.Slice
	for number := range *devices {
		slice.Devices = append(slice.Devices, resource.Device{Name: deviceName(number)})
	}
	pool := resourceslice.Pool{Slices: []resourceslice.Slice{slice}}
	if err := helper.PublishResources(ctx, resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{*node: pool}}); err != nil {
		log.Fatal(err)
	}
	<-ctx.Done()
	helper.Stop()
}
