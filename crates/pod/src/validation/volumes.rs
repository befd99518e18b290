//! Volumes and volume mounts.

use std::collections::BTreeSet;

use hostlet_base::{Quantity, json};
use k8s_openapi::api::core::v1::{Container, Volume, VolumeMount};
use serde_json::Value;

use super::{Errors, FieldError, FieldPath, each_invalid, list, names, one_of, required, text, volume_files};

pub(super) fn check_volumes(volumes: &[Volume], path: &FieldPath, errors: &mut Errors) {
    let mut taken = BTreeSet::new();
    for (index, volume) in volumes.iter().enumerate() {
        let path = path.index(index);
        if required(errors, &path.child("name"), &volume.name) {
            each_invalid(errors, &path.child("name"), &volume.name, names::dns_label(&volume.name));
            if !taken.insert(&volume.name) {
                errors.push(FieldError::duplicate(&path.child("name"), &volume.name));
            }
        }
        for source in sources(volume).iter().skip(1) {
            let why = "may not specify more than 1 volume type";
            errors.push(FieldError::forbidden(&path.child(source), why));
        }
        check_source(volume, &path, errors);
    }
}

/// The volume's sources: on the wire, every key but its name.
pub(super) fn sources(volume: &Volume) -> Vec<String> {
    match json::to_value(volume) {
        Ok(Value::Object(object)) => object.keys().filter(|key| *key != "name").cloned().collect(),
        Ok(_) | Err(_) => Vec::new(),
    }
}

fn check_source(volume: &Volume, path: &FieldPath, errors: &mut Errors) {
    if let Some(host_path) = &volume.host_path {
        let path = path.child("hostPath");
        if required(errors, &path.child("path"), &host_path.path) && names::has_backsteps(&host_path.path) {
            errors.push(FieldError::invalid(&path.child("path"), &host_path.path, "must not contain '..'"));
        }
        one_of(
            errors,
            &path.child("type"),
            host_path.type_.as_deref(),
            &[
                "",
                "BlockDevice",
                "CharDevice",
                "Directory",
                "DirectoryOrCreate",
                "File",
                "FileOrCreate",
                "Socket",
            ],
        );
    }
    if let Some(limit) = volume.empty_dir.as_ref().and_then(|directory| directory.size_limit.as_ref()) {
        let path = path.child("emptyDir").child("sizeLimit");
        match Quantity::parse(&limit.0) {
            Err(error) => errors.push(FieldError::invalid(&path, &limit.0, error)),
            Ok(amount) if amount.is_negative() => {
                errors
                    .push(FieldError::forbidden(&path, "SizeLimit field must be a valid resource quantity"));
            }
            Ok(_) => {}
        }
    }
    if let Some(mode) = volume.empty_dir.as_ref().and_then(|directory| directory.mode)
        && !(0..=0o1777).contains(&mode)
    {
        let rule = "must be a number between 0 and 01777 (octal), both inclusive";
        errors.push(FieldError::invalid(&path.child("emptyDir").child("mode"), mode, rule));
    }
    volume_files::check(volume, path, errors);
    if let Some(image) = &volume.image {
        let path = path.child("image");
        required(errors, &path.child("reference"), text(&image.reference));
        let policy = image.pull_policy.as_deref();
        one_of(errors, &path.child("pullPolicy"), policy, &["Always", "IfNotPresent", "Never"]);
    }
    if let Some(nfs) = &volume.nfs {
        let path = path.child("nfs");
        required(errors, &path.child("server"), &nfs.server);
        required(errors, &path.child("path"), &nfs.path);
        if !nfs.path.starts_with('/') {
            errors.push(FieldError::invalid(&path.child("path"), &nfs.path, "must be an absolute path"));
        }
    }
    if let Some(csi) = &volume.csi {
        let path = path.child("csi");
        required(errors, &path.child("driver"), &csi.driver);
        if let Some(secret) = &csi.node_publish_secret_ref {
            required(errors, &path.child("nodePublishSecretRef").child("name"), &secret.name);
        }
    }
    if let Some(ephemeral) = &volume.ephemeral
        && ephemeral.volume_claim_template.is_none()
    {
        errors.push(FieldError::required(&path.child("ephemeral").child("volumeClaimTemplate"), ""));
    }
    if let Some(claim) = &volume.persistent_volume_claim {
        required(errors, &path.child("persistentVolumeClaim").child("claimName"), &claim.claim_name);
    }
}

pub(super) fn check_mounts(container: &Container, volumes: &[Volume], path: &FieldPath, errors: &mut Errors) {
    let exists = |name: &str| volumes.iter().any(|volume| volume.name == name);
    let mut taken = BTreeSet::new();
    for (index, mount) in list(&container.volume_mounts).iter().enumerate() {
        let path = path.child("volumeMounts").index(index);
        if required(errors, &path.child("name"), &mount.name) && !exists(&mount.name) {
            errors.push(FieldError::not_found(&path.child("name"), &mount.name));
        }
        if required(errors, &path.child("mountPath"), &mount.mount_path) && !taken.insert(&mount.mount_path) {
            errors.push(FieldError::invalid(&path.child("mountPath"), &mount.mount_path, "must be unique"));
        }
        check_sub_path(mount, &path, errors);
        let propagation = mount.mount_propagation.as_deref();
        one_of(
            errors,
            &path.child("mountPropagation"),
            propagation,
            &["Bidirectional", "HostToContainer", "None"],
        );
        check_recursive_read_only(mount, &path.child("recursiveReadOnly"), errors);
        let privileged = container.security_context.as_ref().and_then(|context| context.privileged);
        if propagation == Some("Bidirectional") && !privileged.unwrap_or(false) {
            let why = "Bidirectional mount propagation is available only to privileged containers";
            errors.push(FieldError::forbidden(&path.child("mountPropagation"), why));
        }
    }
    for (index, device) in list(&container.volume_devices).iter().enumerate() {
        let path = path.child("volumeDevices").index(index);
        if required(errors, &path.child("name"), &device.name) {
            let name = path.child("name");
            match volumes.iter().find(|volume| volume.name == device.name) {
                None => errors.push(FieldError::not_found(&name, &device.name)),
                Some(volume) if volume.persistent_volume_claim.is_none() && volume.ephemeral.is_none() => {
                    let rule = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                    errors.push(FieldError::invalid(&name, &device.name, rule));
                }
                Some(_) => {}
            }
        }
        if required(errors, &path.child("devicePath"), &device.device_path)
            && !taken.insert(&device.device_path)
        {
            errors.push(FieldError::invalid(
                &path.child("devicePath"),
                &device.device_path,
                "must be unique",
            ));
        }
    }
}

fn check_recursive_read_only(mount: &VolumeMount, path: &FieldPath, errors: &mut Errors) {
    let mode = mount.recursive_read_only.as_deref();
    one_of(errors, path, mode, &["Disabled", "Enabled", "IfPossible"]);
    if !matches!(mode, Some("Enabled" | "IfPossible")) {
        return;
    }
    if !mount.read_only.unwrap_or(false) {
        errors.push(FieldError::forbidden(path, "may only be specified when readOnly is true"));
    }
    if !matches!(text(&mount.mount_propagation), "" | "None") {
        let why = "may only be specified when mountPropagation is None or not specified";
        errors.push(FieldError::forbidden(path, why));
    }
}

fn check_sub_path(mount: &VolumeMount, path: &FieldPath, errors: &mut Errors) {
    for (field, sub_path) in [("subPath", text(&mount.sub_path)), ("subPathExpr", text(&mount.sub_path_expr))]
    {
        if sub_path.starts_with('/') {
            errors.push(FieldError::invalid(&path.child(field), sub_path, "must be a relative path"));
        }
        if names::has_backsteps(sub_path) {
            errors.push(FieldError::invalid(&path.child(field), sub_path, "must not contain '..'"));
        }
    }
    if !text(&mount.sub_path).is_empty() && !text(&mount.sub_path_expr).is_empty() {
        let rule = "subPathExpr and subPath are mutually exclusive";
        errors.push(FieldError::invalid(&path.child("subPathExpr"), text(&mount.sub_path_expr), rule));
    }
}
